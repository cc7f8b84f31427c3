"""muster plan: show what would happen. Starts no rank; what Slurm says of the cluster is kept for an hour."""

from __future__ import annotations

import shlex
import sys
from io import TextIOWrapper

from muster.act.prepare import plan_for
from muster.cli.command_line import JSON, QUIET, CommandLine, Words, fields_but
from muster.cli.launching import facts_and_request, warn
from muster.cli.output import at_words
from muster.job.option import option


def main(words: Words) -> int:
    """Print the plan in one of its forms."""
    from muster.model.plan import Engine
    from muster.render.document import plan_as_json
    from muster.render.explain import plan_as_text
    from muster.render.script import job_script, job_shown

    forms = {"script": job_shown if sys.stdout.isatty() else job_script, "json": plan_as_json, "why": plan_as_text}
    form = words.form("as", "script")
    if form == "toml":
        from muster.job.job_file import file_of_words

        print(file_of_words(words.launch.typed), end="")
        return 0
    if form == "words":
        print(shlex.join(("muster", "submit", *words.launch.typed)))
        return 0
    facts, request = facts_and_request(words.launch, quiet=words.quiet)
    plan = plan_for(request, facts, words.launch.typed, engine=Engine.HERE if request.here else Engine.SLURM)
    warn(plan.notes, quiet=words.quiet)
    text = forms[form](plan)
    if isinstance(sys.stdout, TextIOWrapper) and form != "why":
        # A script is UTF-8 whatever the terminal is, as submit writes it; words that are not UTF-8 keep their bytes.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    print(at_words(text, sys.stdout) if form == "why" else text, end="")
    return 0


COMMAND = CommandLine(
    name="plan",
    start=main,
    summary="""\
Show what would happen: the script that submit would queue, the plan as JSON, or the reason for every line. Starts
nothing. Slurm is asked what this cluster is where nobody has asked it for an hour; --fresh asks again.""",
    operands="[--] COMMAND…",
    most=None,
    runs=True,
    fields=fields_but("no_label", has_roles=True),
    options=(
        option(
            "--as FORM",
            "what to print: script, json, why (the reason for every line), toml (a file for --file) or words "
            "(the command line) (default: script)",
            choices=("script", "json", "why", "toml", "words"),
        ),
        JSON,
        QUIET,
    ),
    examples=("muster plan -N 2 -g 4 --as why -- python train.py",),
)
