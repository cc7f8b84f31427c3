"""The user's command: what runs a script, and a command that is itself a launcher. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from muster.errors import RequestError

__all__ = ["pin_python", "resolve_command"]

# First words that start processes of their own: one of them in every rank would start ranks within ranks.
_LAUNCHERS = {
    "torchrun": "torchrun",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "mpiexec.hydra": "mpirun",
    "srun": "srun",
    "accelerate": "torchrun",
    "horovodrun": "horovod",
    "deepspeed": "torchrun",
    "torchrun-hpc": "torchrun",
}
_TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})


def resolve_command(command: Sequence[str], python: str | None) -> tuple[tuple[str, ...], str | None]:
    """The command that each rank runs, and one line of news where it is not what was typed."""
    if not command:
        raise RequestError("there is no command to run", hint="muster run -N 2 -g 4 -- python train.py")
    words = tuple(command)
    if words[0] == "":
        raise RequestError("the command's first word is empty", hint="give the program's name")
    launcher = _launcher_in(words)
    if launcher is not None:
        raise _launcher_refused(words, launcher)
    if words[0].endswith(".py"):
        interpreter = python or "python3"
        return (interpreter, *words), f"{words[0]} runs with {interpreter}"
    return words, None


def pin_python(command: tuple[str, ...], python: str | None) -> tuple[tuple[str, ...], str | None]:
    """`python` as the path it has here: the job's own PATH would find another, without a word."""
    if python is None or command[0] not in {"python", "python3"}:
        return command, None
    return (python, *command[1:]), f"{command[0]} is {python}"


def _launcher_in(words: Sequence[str]) -> str | None:
    """The launcher of ours that does what the command's own would."""
    name = PurePosixPath(words[0]).name
    if name == "accelerate" and words[1:2] != ("launch",):
        return None
    if name in _LAUNCHERS:
        return _LAUNCHERS[name]
    if name.startswith("python") and len(words) > 2 and words[1] == "-m" and words[2] in _TORCHRUN_MODULES:
        return "torchrun"
    return None


def _launcher_refused(words: Sequence[str], launcher: str) -> RequestError:
    program = PurePosixPath(words[0]).name
    script = _script_after(words)
    rest = shlex.join(script) if script else "python train.py"
    return RequestError(
        f"the command starts with a launcher of its own ({program}): every rank would start ranks again",
        hint=f"let Muster start it: --launcher {launcher} -- {rest}",
    )


def _script_after(words: Sequence[str]) -> list[str]:
    """The command that the inner launcher would have run: from its first word that is a script or a program."""
    for index, word in enumerate(words):
        if index and word.endswith(".py"):
            before = words[index - 1]
            start = index - 1 if PurePosixPath(before).name.startswith("python") else index
            found = list(words[start:])
            return found if start < index else ["python", *found]
    return []
