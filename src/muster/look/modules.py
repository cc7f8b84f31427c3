"""Whether this host has the module that a job loads first, as far as the program behind `module` says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from muster.errors import MusterError
from muster.model.plan import Prelude, PreludeKind
from muster.runner import Runner

# Lmod and Environment Modules list one name a line, folders with a colon, and a version's mark in brackets.
_NAME = re.compile(r"^([^\s:;=()]+)(?: *\(.*\))?$", re.MULTILINE)


def missing_module(
    modules: Sequence[str], prelude: Sequence[Prelude], environment: Mapping[str, str], runner: Runner
) -> str:
    """Return a sentence if this host lacks the user's first module; empty: it has it, or cannot know.

    A module that is loaded before another may bring it, so the job's other modules are not looked for.
    """
    program = environment.get("LMOD_CMD") or environment.get("MODULES_CMD")
    kinds = (PreludeKind.MODULE_USE, PreludeKind.MODULE_LOAD)
    steps = [(command.kind, str(command.words[1])) for command in prelude if command.kind in kinds]
    folders = [name for _, name in takewhile(lambda step: step[0] is PreludeKind.MODULE_USE, steps)]
    if not program or steps[len(folders) :][:1] != [(PreludeKind.MODULE_LOAD, modules[0])]:
        return ""
    variables = {**environment, "MODULEPATH": ":".join([*folders, environment.get("MODULEPATH", "")])}

    def list_names(*wanted: str) -> list[str]:
        answer = runner([program, "bash", "--terse", "avail", *wanted], env=variables, timeout_s=10)
        names = _NAME.findall(f"{answer.stderr}\n{answer.stdout}")
        return [name for name in names if name.lower().startswith(wanted)] if wanted else names

    try:
        alternatives = modules[0].lower().split("|")
        names = [] if any(map(list_names, alternatives)) else list_names()
    except MusterError:
        return ""
    return f"the module {modules[0]!r} is not on this host: {_meant(alternatives[0], names)}" if names else ""


def _meant(wanted: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches  # only needed once something is wrong

    title = wanted.partition("/")[0]
    versions = [name for name in names if re.match(rf"{re.escape(title)}/.", name, re.IGNORECASE)]
    if versions:
        return f"it has {', '.join(versions[-5:])}"
    titles = {name.lower().partition("/")[0]: name.partition("/")[0] for name in names}
    return next(
        (f"did you mean {titles[title]!r}?" for title in get_close_matches(title, titles)), "is it on the nodes?"
    )
