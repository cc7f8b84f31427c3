"""muster submit: queue the plan's script; the job id alone on stdout."""

from __future__ import annotations

from collections.abc import Sequence

from muster.cli.launching import asked_for_help, facts_and_request, place_gate, place_staged, plan_for, take_own, warn
from muster.cli.output import print_json, say

_USAGE = "muster submit [OPTION…] [--] COMMAND…"
_SUMMARY = "Queue the command as a Slurm job. Prints the job id alone on stdout; everything else goes to stderr."


def main(words: Sequence[str]) -> int:
    """Queue a job."""
    if asked_for_help(words, _USAGE, _SUMMARY, leave_out=("here", "no_label")):
        return 0
    from pathlib import Path

    from muster.act.preflight import check_before_start
    from muster.act.rank_library import make_rank_library
    from muster.act.record import state_directory
    from muster.act.submit import submit
    from muster.plan.build import digest_of

    rest, own = take_own(words, ("--quiet", "--verbose", "--json"))
    quiet = "--quiet" in own
    facts, request = facts_and_request(rest, quiet=quiet)
    plan = plan_for(request, facts, rest)
    warn([*plan.notes, *check_before_start(plan, facts.environment)], quiet=quiet)
    make_rank_library(plan.rank_library)
    place_gate(plan)
    place_staged(plan, quiet=quiet)
    done = submit(
        plan,
        digest=digest_of(plan),
        parent=Path(facts.working_directory) / "muster-runs",
        state=state_directory(facts.environment, facts.home),
        environment=facts.environment,
        say=lambda text: say(text, quiet=quiet),
    )
    say(f"job {done.job}: {done.directory}", quiet=quiet)
    if "--json" in own:
        print_json({"job": done.job, "directory": str(done.directory), "adopted": done.adopted})
    else:
        print(done.job)
    return 0
