"""What a look at the command's first words shows before anybody waits: a misspelt program, a script that cannot run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from os import path as paths
from typing import TYPE_CHECKING

from muster.errors import RequestError
from muster.look.programs import on_path
from muster.words.chain import script_of_python

if TYPE_CHECKING:
    from muster.ownership import AnyPath

_USUAL = (
    *("python", "python3", "bash", "sh", "torchrun", "accelerate", "deepspeed"),
    *("uv", "conda", "poetry", "ray", "jupyter"),
)
_LONGEST_SCRIPT_BYTES = 1 << 20


def notes_on_command(words: Sequence[str], directory: AnyPath, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each thing that will probably not run on the nodes.

    RequestError for what surely will not.
    """
    program = words[0]
    if "/" not in program and on_path(program, environment) is None:
        _refuse_file(program, paths.join(directory, program))
        _refuse_swapped(program, environment)
        yield f"the program {program!r} is not on PATH here: {meant_program(program) or 'is it on the nodes?'}"
    if paths.basename(program).startswith("python"):
        script = script_of_python(words)
        if script is not None and script.endswith(".py"):
            yield from _unreadable(paths.join(directory, script), script, is_own=_is_this_python(program, environment))


def meant_program(program: str) -> str:
    """Return a question that names the program which was probably meant; empty: none is near."""
    from difflib import get_close_matches  # only needed once something is wrong

    close = get_close_matches(program, [name for name in _USUAL if name != program], n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def _refuse_swapped(program: str, environment: Mapping[str, str]) -> None:
    """Refuse the letters of a usual program in another order: no other program is called so."""
    meant = next((name for name in _USUAL if sorted(name) == sorted(program) and name != program), None)
    if meant is not None and on_path(meant, environment) is not None:
        raise RequestError(f"there is no program {program!r} here", hint=f"did you mean {meant!r}?")


def _refuse_file(name: str, path: str) -> None:
    """Refuse a first word that is a file, not a program; a file with #SBATCH lines is a job script."""
    if not paths.isfile(path):
        return
    try:
        with open(path, "rb") as stream:
            head = stream.read(4096)
    except OSError:
        head = b""
    if b"\n#SBATCH" in head:
        raise RequestError(
            f"{name} is a job script, but Muster needs a command here",
            hint=f"muster port {name} turns it into a line of Muster; sbatch {name} queues it as it is",
        )
    raise RequestError(
        f"{name} is a file, but not a program on PATH", hint=f"./{name}, or its interpreter: python {name}"
    )


def _is_this_python(program: str, environment: Mapping[str, str]) -> bool:
    """Return whether the ranks have the Python that runs Muster: what it cannot parse they cannot either."""
    path = program if "/" in program else on_path(program, environment)
    return path is not None and os.path.realpath(path) == os.path.realpath(sys.executable)


def _unreadable(path: AnyPath, shown_name: str, *, is_own: bool) -> Iterator[str]:
    """Yield a note on a script that this Python cannot parse; refuse it if the ranks have the same Python.

    For another Python it is most likely broken too.
    """
    from muster.look.sources import parse_file

    try:
        if paths.getsize(path) <= _LONGEST_SCRIPT_BYTES:
            parse_file(path)
    except SyntaxError as error:
        sentence = f"{shown_name}, line {error.lineno}: {error.msg}"
        if is_own:
            raise RequestError(sentence, hint="correct that line: no rank would get further") from None
        yield f"{sentence}: no rank will get further"
    except (OSError, ValueError, RecursionError, MemoryError):
        return
