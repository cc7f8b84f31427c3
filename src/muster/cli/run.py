"""muster run: run a command as ranks, now."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from muster.cli.launching import (
    asked_for_help,
    facts_and_request,
    need_command,
    place_gate,
    place_staged,
    plan_for,
    start_by_name,
    take_own,
    warn,
)
from muster.cli.output import say

_USAGE = "muster run [OPTION…] [--] COMMAND…"
_SUMMARY = (
    "Run the command as ranks, now: over the allocation this is typed in, else in one that Slurm gives, "
    "else on this machine.\n\n"
    "--rehearse [--ranks R] runs it on a private cluster like the site instead (muster lab), the command itself with\n"
    "at most R ranks (4), and says what that could show and what not."
)


def main(words: Sequence[str]) -> int:
    """Run; the status is the one of the first rank that failed."""
    if asked_for_help(words, _USAGE, _SUMMARY, leave_out=("output", "error", "per_rank_files")):
        return 0
    start_by_name("run", words)
    from muster.act.launch import run_allocated, run_here, run_within
    from muster.act.preflight import check_before_start
    from muster.act.rank_library import make_rank_library
    from muster.look.place import Place, place_of, refuse_in_every_rank
    from muster.look.size import sized_by_allocation
    from muster.model.plan import Engine

    rest, own = take_own(words, ("--quiet", "--verbose", "--rehearse"), ("--ranks",))
    quiet = "--quiet" in own
    if "--rehearse" in own or "--ranks" in own:
        from muster.cli.rehearse import rehearse

        return rehearse(rest, asked="--rehearse" in own, ranks=own.get("--ranks"), quiet=quiet)
    facts, request = facts_and_request(rest, quiet=quiet)
    need_command(request)
    place, why = place_of(request, facts)
    if not request.here:
        refuse_in_every_rank(facts.environment, on_terminal=sys.stdin.isatty())
    if place is Place.WITHIN:
        request = sized_by_allocation(request, facts)
    plan = plan_for(
        request,
        facts,
        rest,
        engine=Engine.HERE if place is Place.HERE else Engine.SLURM,
        within=place is Place.WITHIN,
        stream=True,
    )
    warn([*plan.notes, *check_before_start(plan, facts.environment)], quiet=quiet)
    make_rank_library(plan.rank_library)
    place_gate(plan)
    place_staged(plan, quiet=quiet)
    if "--verbose" in own:
        say(f"{place}: {why}; launcher {plan.launcher}: {plan.launcher_reason.text}")
    if place is Place.WITHIN:
        run_within(plan, facts.environment)
    if place is Place.ALLOCATE:
        run_allocated(plan, facts.environment)
    outcome = run_here(plan, facts.environment)
    if outcome.first_failed is not None and plan.shape.ntasks > 1:
        say(f"rank {outcome.first_failed} ended with status {outcome.status}; the others were ended", quiet=quiet)
    return outcome.status
