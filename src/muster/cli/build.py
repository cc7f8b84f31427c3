"""muster build: environments for jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from muster.cli.output import say
from muster.errors import RequestError, UnknownName

_PAGE = """\
usage: muster build venv DIR [OPTION…]

Make a virtual environment where it will stand, with the compilers and the MPI of the modules that are loaded. A
directory that is there is not touched; what is not finished is taken away; DIR/muster-build.json tells what it was made
from.

options:
  --python PROGRAM        the Python to make it with; default: the one that runs Muster
  --requirements FILE     what pip installs; may be repeated
  --with horovod          Horovod against the torch, the MPI and the NCCL that are there; a wheel that was built before
                          for the same parts is taken
  --nccl PATH             the NCCL to build Horovod with; default: the one of the loaded module
  --quiet                 no progress on stderr
  -h, --help              show this page and leave
"""
_VALUED = ("--python", "--requirements", "--with", "--nccl")


def main(words: Sequence[str]) -> int:
    """Make what was asked for."""
    if not words or {"-h", "--help"} & set(words):
        print(_PAGE, end="")
        return 0
    what, *rest = words
    if what != "venv":
        raise UnknownName("thing that muster build makes", what, ("venv",))
    from muster.build.venv import Recipe, build_venv

    folders, values, quiet = _sorted(rest)
    if len(folders) != 1:
        raise RequestError(f"muster build venv makes one directory, and {len(folders)} are named", hint=_HELP)
    single = {name: found[-1] for name, found in values.items() if found}
    recipe = Recipe(
        python=single.get("--python", sys.executable),
        requirements=tuple(Path(text).absolute() for text in values["--requirements"]),
        parts=tuple(dict.fromkeys(values["--with"])),
        nccl=Path(single["--nccl"]).absolute() if "--nccl" in single else None,
    )
    folder = Path(folders[0]).absolute()
    build_venv(folder, recipe, os.environ, lambda text: say(text, quiet=quiet))
    print(folder)
    return 0


_HELP = "muster build --help"


def _sorted(words: Sequence[str]) -> tuple[list[str], dict[str, list[str]], bool]:
    """(what stands alone, option → its values, --quiet)."""
    alone: list[str] = []
    values: dict[str, list[str]] = {name: [] for name in _VALUED}
    rest = [word for word in words if word != "--quiet"]
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in _VALUED:
            if not equals and not rest:
                raise RequestError(f"{name} wants a value", hint=_HELP)
            values[name].append(value if equals else rest.pop(0))
        elif name.startswith("-"):
            raise UnknownName("option of muster build", name, (*_VALUED, "--quiet", "--help"))
        else:
            alone.append(name + equals + value)
    return alone, values, "--quiet" in words
