"""`python -m muster_check.ranks`, where the package is installed; the packed file starts the same."""

import sys

from .gate import run

if __name__ == "__main__":
    run(sys.argv[1:])
