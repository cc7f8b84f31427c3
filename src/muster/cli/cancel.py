"""muster cancel: end jobs, and say which could not be ended."""

from __future__ import annotations

from collections.abc import Sequence

from muster.cli.asking import Case, cases, parse_words, scheduler
from muster.cli.output import print_json, say

_PAGE = """\
usage: muster cancel JOB… [--json]

End jobs, waiting or running. One that is over already is left as it is.

options:
  --json         one JSON document: {"cancelled": […], "over": […]}
  -h, --help     show this page and leave
"""


def main(words: Sequence[str]) -> int:
    """Cancel jobs: nothing is cancelled unless every id is a job."""
    typed = parse_words("cancel", words, _PAGE, ids=(1, None))
    if typed is None:
        return 0
    slurm = scheduler()
    # scancel says nothing of an id that is none: ask first.
    found = cases(typed.ids, slurm.jobs(typed.ids))
    # Of an array, some may be over while others live.
    living = [asked for asked in typed.ids if any(case.asked == asked and _lives(case) for case in found)]
    over = [asked for asked in typed.ids if asked not in living]
    if living:
        slurm.cancel(living)
    if "--json" in typed.switches:
        print_json({"cancelled": living, "over": over})
        return 0
    for asked in over:
        say(f"job {asked} is over already")
    for asked in living:
        say(f"job {asked} is cancelled")
    return 0


def _lives(case: Case) -> bool:
    return case.job is not None and not case.job.state.phase.is_over
