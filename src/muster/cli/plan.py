"""muster plan: show what would happen. Starts no process, asks nobody; same input, same bytes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

from muster.cli.launching import asked_for_help, facts_and_request, plan_for, take_own, warn
from muster.errors import RequestError

_USAGE = "muster plan [--as script|json|why] [OPTION…] [--] COMMAND…"
_SUMMARY = "Show what submit would queue: the script (the default), the plan as JSON, or the reason for every line."


def main(words: Sequence[str]) -> int:
    """Print the plan in one of its forms."""
    if asked_for_help(words, _USAGE, _SUMMARY, leave_out=("no_label",)):
        return 0
    from muster.model.plan import Engine
    from muster.render.explain import plan_as_json, plan_as_text
    from muster.render.script import job_script

    forms = {"script": job_script, "json": plan_as_json, "why": plan_as_text}
    rest, own = take_own(words, ("--quiet", "--verbose", "--json"), ("--as",))
    form = own.get("--as", "json" if "--json" in own else "script")
    if form not in forms:
        raise RequestError(
            f"--as {form!r} is none of {', '.join(forms)}", hint="muster plan --as why -- python train.py"
        )
    facts, request = facts_and_request(rest, quiet="--quiet" in own)
    plan = plan_for(request, facts, rest, engine=Engine.HERE if request.here else Engine.SLURM)
    warn(plan.notes, quiet="--quiet" in own)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # words that are no UTF-8 keep their bytes in the script
    print(forms[form](plan), end="")
    return 0
