"""The user's command: what runs a script, and a command that is itself a launcher. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from muster.errors import RequestError
from muster.plan.nested import nested_launcher, refuse_launcher
from muster.plan.wrappers import unwrapped

# What may stand before a command and decides which Python it finds.
_BRING_PYTHON = {"env", "uv", "poetry", "pdm", "hatch", "pipenv", "rye", "pixi", "conda", "mamba", "micromamba"}


def resolve_command(
    command: Sequence[str],
    python: str | None,
    *,
    nodes: int | None = None,
    launcher_file: tuple[str, str] | None = None,
) -> tuple[tuple[str, ...], str | None]:
    """Return the command that each rank runs, and one line of news where it is not what was typed."""
    if not command:
        raise RequestError("no command was given", hint="muster run -N 2 -g 4 -- python train.py")
    words = tuple(command)
    if words[0] == "":
        raise RequestError("the command's first word is empty", hint="give the program's name")
    if words[0].startswith("-"):
        raise RequestError(
            f"the command begins with {words[0]}, which no shell takes for a program",
            hint=f"options of Muster stand before --; a program of that name is ./{words[0]}",
        )
    launcher = nested_launcher(words)
    if launcher is not None:
        raise refuse_launcher(launcher, nodes=nodes, launcher_file=launcher_file)
    if words[0].endswith(".py"):
        interpreter = python or "python3"
        return (interpreter, *words), f"{words[0]} runs with {interpreter}"
    return words, None


def pin_python(command: tuple[str, ...], python: str | None) -> tuple[tuple[str, ...], str | None]:
    """Return the command with `python` as the path it has here.

    The job's own PATH would find another, and report nothing.
    """
    if python is None or command[0] not in {"python", "python3"}:
        return command, None
    return (python, *command[1:]), f"{command[0]} is {python}, in every rank"


def agent_python(command: Sequence[str], python: str) -> tuple[str, ...]:
    """Return the words that start the Python of the command, for torchrun's agent.

    Another torch must not start the ranks.
    """
    wrapper_words, rest = unwrapped(command)
    wrapper_words = wrapper_words if wrapper_words and PurePosixPath(wrapper_words[0]).name in _BRING_PYTHON else ()
    name = PurePosixPath(rest[0]).name if rest else ""
    if name.startswith("python"):
        return (*wrapper_words, rest[0])
    # uv run train.py: the wrapper brings the Python.
    return (*wrapper_words, "python") if wrapper_words and name.endswith(".py") else (python,)
