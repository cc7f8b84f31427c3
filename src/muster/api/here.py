"""The process of a job on this machine: it starts the ranks, and writes how they ended. `LocalJob` starts it.

python -m muster.api.here DIRECTORY WORDS…
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from muster.act.prepare import request_for
from muster.api.local import write_ending
from muster.job.options import parse
from muster.look.probe import look
from muster.start import prepare_run, run_here


def main(arguments: Sequence[str]) -> int:
    """Run the ranks; the status is that of the first rank that failed."""
    from muster.look.place import RunPlace

    directory, *typed = arguments
    facts, request = request_for(look(), *parse(typed))
    outcome = run_here(prepare_run(request, facts, typed, RunPlace.HERE), lambda _: None)
    write_ending(Path(directory), outcome.status, outcome.first_failed)
    return outcome.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
