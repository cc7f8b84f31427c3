"""muster run: run a command as ranks, now."""

from __future__ import annotations

import sys
from functools import partial

from muster.cli.command_line import QUIET, CommandLine, Words, fields_but
from muster.cli.launching import facts_and_request, need_command, start_by_name, warn
from muster.cli.output import leave, say
from muster.errors import SchedulerSilent
from muster.job.option import option, parse_count
from muster.parts import service


def main(words: Words) -> int:
    """Run; the status is the one of the first rank that failed."""
    start_by_name("run", words.without())

    from muster.look.place import RunPlace, place_of, refuse_in_every_rank
    from muster.start import prepare_run, run_here, run_on_nodes

    launch, quiet = words.launch, words.quiet
    if words.rehearse or words.ranks is not None:
        status: int = service("rehearsal")(launch, is_asked=words.rehearse, ranks=words.ranks, quiet=quiet)
        return status
    facts, request = facts_and_request(launch, quiet=quiet)
    need_command(request)
    try:
        place, _ = place_of(request, facts)
    except SchedulerSilent as error:
        hint = f"{error.hint}; muster run --here starts the ranks on this machine"
        raise SchedulerSilent(error.message, hint) from None
    if not request.here:
        refuse_in_every_rank(facts.environment, on_terminal=sys.stdin.isatty())
    prepared = prepare_run(request, facts, launch.typed, place)
    plan, news = prepared.plan, partial(say, quiet=quiet)
    warn(prepared.notes, quiet=quiet)
    if place is not RunPlace.HERE:
        from muster.cli.closing import close, wait_words

        kept_job = run_on_nodes(prepared, say=news, say_always=say, wait_words=wait_words)
        close(plan, kept_job, quiet=quiet)
    outcome = run_here(prepared, news)
    if outcome.first_failed is not None or outcome.unmet is not None:
        from muster.cli.closing import say_end_here

        say_end_here(plan, outcome, quiet=quiet)
    return leave(outcome.status)


COMMAND = CommandLine(
    name="run",
    start=main,
    summary="""\
Run the command as ranks, now: in the allocation where this is typed, else in one that Slurm gives, else on this
machine.""",
    operands="[--] COMMAND…",
    most=None,
    runs=True,
    fields=fields_but("output", "error", "per_rank_files", "snapshot"),
    options=(
        option(
            "--rehearse",
            "run the command on a private cluster like the site first, and report what that shows",
            is_common=True,
            group="rehearsal",
        ),
        option(
            "--ranks R",
            "with --rehearse: most ranks of the command itself (default: 4)",
            parse_count(1, 128),
            group="rehearsal",
        ),
        QUIET,
    ),
    examples=("muster run -N 2 -g 4 -- python train.py",),
)
