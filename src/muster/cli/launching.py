"""What run, submit and plan share: words → request, and request → plan."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.act.prepare import request_for
from muster.cli.output import say
from muster.errors import RequestError
from muster.look.programs import on_path

if TYPE_CHECKING:
    from muster.cli.command_line import TypedLaunch
    from muster.facts import Facts
    from muster.job.request import Request
    from muster.model.plan import Note


def start_by_name(verb: str, words: Sequence[str]) -> None:
    """Become `muster VERB` with the typed secrets in the environment: everybody may read the words of a process."""
    if not any("--env" in word for word in words):
        return

    from muster.plan.secret import passed_by_name
    from muster.runner import become, own_command

    kept_words, needed_values = passed_by_name(words)
    if needed_values:
        become([*own_command(), verb, *kept_words], {**os.environ, **needed_values})


def facts_and_request(launch: TypedLaunch, *, quiet: bool = False, is_first: bool = True) -> tuple[Facts, Request]:
    """Return the facts and the request, over what the settings files say.

    Report them, unless a later process does it.
    """
    from muster.look.probe import look, settings_notes

    facts = look()
    warn(settings_notes(facts) if is_first else (), quiet=quiet)
    _refuse_split_value(launch)
    return request_for(facts, launch.values, launch.origins, launch.command)


_UNITS = frozenset(
    "k kb kib m mb mib g gb gib t tb tib s sec second seconds min minute minutes h hour hours d day days".split()  # noqa: SIM905
)


def _refuse_split_value(launch: TypedLaunch) -> None:
    """Refuse a unit that stands alone behind a number: `--mem 4 GB` would run the command GB."""
    if not launch.command or launch.command[0].lower() not in _UNITS or on_path(launch.command[0], os.environ):
        return
    unit, size = launch.command[0], len(launch.command)
    typed = re.search(r"(?:^| )(-\S+[ =]\d+)$", " ".join(launch.typed[:-size]))
    if typed is not None:
        message = f"{typed[1]} {unit}: the value of an option is one word, but here are two"
        raise RequestError(message, hint=f"{typed[1]}{unit[0]}")


def warn(notes: Sequence[Note], *, quiet: bool) -> None:
    """Print a warning always, another note unless quiet."""
    for note in notes:
        if note.warning or not quiet:
            say(f"{'warning: ' if note.warning else ''}{note.text}")


def need_command(request: Request) -> None:
    """Refuse a launch without a command."""
    if not request.command:
        raise RequestError("no command was given", hint="muster run -N 2 -g 4 -- python train.py")
