"""muster cancel: end jobs, and say which could not be ended."""

from __future__ import annotations

from collections.abc import Sequence

from muster.cli.asking import cases, parse_words, scheduler
from muster.cli.output import print_json, say
from muster.errors import RequestError

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
    over = [case.asked for case in found if case.job is None or case.job.state.phase.is_over]
    living = [asked for asked in typed.ids if any(case.asked == asked and case.asked not in over for case in found)]
    if living:
        slurm.cancel(living)
    if "--json" in typed.switches:
        print_json({"cancelled": living, "over": sorted(set(over), key=over.index)})
        return 0
    for asked in dict.fromkeys(over):
        say(f"job {asked} is over already")
    for asked in living:
        say(f"job {asked} is cancelled")
    if not living and not over:
        raise RequestError("there was nothing to cancel", hint="muster jobs")
    return 0
