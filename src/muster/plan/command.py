"""The user's command: what runs a script, and a command that is itself a launcher. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import PurePosixPath

from muster.errors import RequestError

__all__ = ["pin_python", "resolve_command"]

# First words that start processes of their own: one of them in every rank would start ranks within ranks.
_LAUNCHERS = {
    "torchrun": "torchrun",
    "torchrun-hpc": "torchrun",
    "accelerate": "torchrun",
    "deepspeed": "torchrun",
    "fabric": "torchrun",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "orterun": "mpirun",
    "prterun": "mpirun",
    "mpirun_rsh": "mpirun",
    "srun": "srun",
    "aprun": "srun",
    "jsrun": "srun",
    "horovodrun": "horovod",
}
# Some are launchers only with this second word.
_SECOND_WORD = {"accelerate": "launch", "fabric": "run"}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "torchrun",
    "deepspeed.launcher.runner": "torchrun",
    "horovod.runner": "horovod",
}
_SIZES = {"nnodes": "-N", "num_machines": "-N", "nproc_per_node": "--ntasks-per-node"}


def resolve_command(command: Sequence[str], python: str | None) -> tuple[tuple[str, ...], str | None]:
    """The command that each rank runs, and one line of news where it is not what was typed."""
    if not command:
        raise RequestError("there is no command to run", hint="muster run -N 2 -g 4 -- python train.py")
    words = tuple(command)
    if words[0] == "":
        raise RequestError("the command's first word is empty", hint="give the program's name")
    if words[0].startswith("-"):
        raise RequestError(
            f"the command begins with {words[0]}, which no shell takes for a program",
            hint=f"an option of ours stands before --; a program of that name is ./{words[0]}",
        )
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
    words = _without_env(words)
    if not words:
        return None
    # mpirun.mpich, mpiexec.hydra, mpirun.openmpi
    name = PurePosixPath(words[0]).name
    name = name.partition(".")[0] if name.startswith("mpi") else name
    if name in _SECOND_WORD and words[1:2] != (_SECOND_WORD[name],):
        return None
    if name in _LAUNCHERS:
        return _LAUNCHERS[name]
    return _MODULES.get(_module_in(words)) if name.startswith("python") else None


def _without_env(words: Sequence[str]) -> tuple[str, ...]:
    """What `env A=1 torchrun …` starts."""
    if PurePosixPath(words[0]).name != "env":
        return tuple(words)
    return tuple(dropwhile(lambda word: "=" in word, words[1:]))


def _module_in(words: Sequence[str]) -> str:
    """The module of `python -u -m MODULE …`; nothing where it runs a script."""
    for index, word in enumerate(words[1:], start=1):
        if word == "-m":
            return words[index + 1] if index + 1 < len(words) else ""
        if not word.startswith("-"):
            return ""
    return ""


def _launcher_refused(words: Sequence[str], launcher: str) -> RequestError:
    words = _without_env(words)
    program = PurePosixPath(words[0]).name
    if program.startswith("python"):
        program = f"{program} -m {_module_in(words)}"
    rest = shlex.join(_command_after(words)) or "COMMAND"
    sizes = "".join(f"{flag} {number} " for flag, number in _sizes_in(words).items())
    return RequestError(
        f"the command starts with a launcher of its own ({program}): every rank would start ranks again",
        hint=f"let Muster start it: {sizes}--launcher {launcher} -- {rest}",
    )


def _sizes_in(words: Sequence[str]) -> dict[str, str]:
    """Nodes and ranks per node that the inner launcher was told, in our words."""
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        flag = _SIZES.get(name.lstrip("-").replace("-", "_")) if name.startswith("--") else None
        number = value if equals else following
        if flag and number.isdigit():
            found.setdefault(flag, number)
        if word.endswith(".py"):
            break
    return found


def _command_after(words: Sequence[str]) -> list[str]:
    """The command that the inner launcher would have run: from its first word that is a script or a program."""
    own_module = _module_in(words) if PurePosixPath(words[0]).name.startswith("python") else ""
    start = words.index(own_module) + 1 if own_module else 1
    for index, word in enumerate(words[start:], start=start):
        if PurePosixPath(word).name.startswith("python"):
            return list(words[index:])
        if word.endswith(".py") or word == "-m":
            return ["python", *words[index:]]
        if "/" in word and not words[index - 1].startswith("-"):
            return list(words[index:])
    return []
