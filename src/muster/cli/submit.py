"""muster submit: queue the plan's script; the job id alone on stdout."""

from __future__ import annotations

from muster.cli.command_line import JSON, QUIET, CommandLine, Words, fields_but
from muster.cli.launching import facts_and_request, warn
from muster.cli.output import leave, print_json, say


def main(words: Words) -> int:
    """Queue a job."""
    from muster.start import prepare_job, queue

    quiet = words.quiet
    facts, request = facts_and_request(words.launch, quiet=quiet)
    prepared = prepare_job(request, facts, words.launch.typed)
    warn([*prepared.excluded, *prepared.notes], quiet=quiet)
    submission = queue(prepared, lambda text: say(text, quiet=quiet))
    say(f"job {submission.job}: {submission.directory}", quiet=quiet)
    if words.json:
        print_json({"job": submission.job, "directory": str(submission.directory), "adopted": submission.adopted})
    else:
        print(submission.job)
    return leave(0)


COMMAND = CommandLine(
    name="submit",
    start=main,
    summary="Queue the command as a Slurm job. The job id stands alone on stdout; everything else goes to stderr.",
    operands="[--] COMMAND…",
    most=None,
    runs=True,
    fields=fields_but("here", "no_label", has_roles=True),
    options=(JSON, QUIET),
    examples=("muster submit -N 2 -g 4 -t 12h -A ACCOUNT -- python train.py",),
)
