"""`python -m muster` is the command `muster`."""

import sys

from muster.cli.app import main

sys.exit(main())
