"""What a job's own watcher starts when nothing was written for long: one look at the ranks.

    python -m muster.cli.silence first|second JOB NODELIST RUN_DIRECTORY SECONDS

The status is 3 where no rank goes on, else 0. It is not a verb: only the script starts it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from muster.cli.output import say
from muster.rank.hostlist import expand
from muster.stacks.silence import Watched, look

_STILL = 3


def main(words: Sequence[str]) -> int:
    """Look once, and say a hang in the log."""
    run_id, job, nodes, directory, silent_s = words
    watched = Watched(job, tuple(expand(nodes)), Path(directory), int(silent_s), say)
    return 0 if look(watched, is_second=run_id == "second", environment=os.environ) else _STILL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
