"""muster submit: queue the plan's script; the job id alone on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.act.prepare import plan_for
from muster.cli.command_line import JSON, QUIET, CommandLine, Words, fields_but
from muster.cli.launching import facts_and_request, place_gate, place_staged, warn
from muster.cli.output import print_json, say

if TYPE_CHECKING:
    from muster.facts import Facts
    from muster.model.plan import Note, Plan


def main(words: Words) -> int:
    """Queue a job."""
    from pathlib import Path

    from muster.act.preflight import check_before_start
    from muster.act.rank_library import make_rank_library
    from muster.act.record import state_directory
    from muster.act.submit import Submission
    from muster.follow.node_memory import leave_out
    from muster.look.cluster import cluster_name

    quiet = words.quiet
    facts, request = facts_and_request(words.launch, quiet=quiet)
    cluster_here = cluster_name(facts.environment)
    remembered = state_directory(facts.environment, facts.home)
    request, left_out = leave_out(request, remembered, cluster_here)
    plan = plan_for(request, facts, words.launch.typed)
    checked_notes = check_before_start(plan, facts.environment)
    warn([*left_out, *plan.notes, *checked_notes, *_notes_on_hangs(plan, facts)], quiet=quiet)
    make_rank_library(plan.rank_library)
    place_gate(plan)
    place_staged(plan, quiet=quiet)
    submission = Submission(
        plan,
        parent=Path(facts.working_directory) / "muster-runs",
        state=remembered,
        cluster=cluster_here,
        environment=facts.environment,
        say=lambda text: say(text, quiet=quiet),
    ).queue()
    say(f"job {submission.job}: {submission.directory}", quiet=quiet)
    if words.json:
        print_json({"job": submission.job, "directory": str(submission.directory), "adopted": submission.adopted})
    else:
        print(submission.job)
    return 0


def _notes_on_hangs(plan: Plan, facts: Facts) -> list[Note]:
    """Say that the watch of hangs will know no line, where that is so here: the nodes are mostly alike."""
    if plan.hang is None or plan.ready is not None or plan.image.ready is not None:
        return []
    from muster.model.plan import Note
    from muster.parts import service

    why = service("unseen-line")(facts.environment)
    text = f"of a rank that hangs the line will not be known: {why}; --stacks-ready shows it, --hang off ends the watch"
    return [Note(text)] if why else []


COMMAND = CommandLine(
    name="submit",
    start=main,
    summary="Queue the command as a Slurm job. The job id stands alone on stdout; everything else goes to stderr.",
    operands="[--] COMMAND…",
    most=None,
    runs=True,
    fields=fields_but("here", "no_label"),
    options=(JSON, QUIET),
    examples=("muster submit -N 2 -g 4 -t 12h -A ACCOUNT -- python train.py",),
)
