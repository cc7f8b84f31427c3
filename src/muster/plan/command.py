"""The user's command: what runs a script, and a command that is itself a launcher. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import basename, splitext

import msgspec

from muster.errors import RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.plan.asked import Asked
from muster.plan.environment import brings_torch
from muster.plan.nested import nested_launcher, refuse_launcher
from muster.plan.python_environment import environment_of, venv_in_image
from muster.sites.site import Site
from muster.words.chain import split_wrappers

# What may stand before a command and decides which Python it finds.
_BRING_PYTHON = {"env", "uv", "poetry", "pdm", "hatch", "pipenv", "rye", "pixi", "conda", "mamba", "micromamba"}


class RankCommand(msgspec.Struct, frozen=True):
    """The command that each rank runs."""

    words: tuple[str, ...]
    python: str | None
    """The interpreter of the environment that the ranks will have, where it is known."""

    news: str | None
    """One line where it is not what was typed."""

    job_name: str


def make_command(asked: Asked, facts: Facts) -> RankCommand:
    """Return the command of the ranks, with the Python that runs it."""
    request = asked.request
    python = _python(request, facts)
    words, news = resolve_command(request.command, python, nodes=request.nodes, launcher_file=facts.launcher_file)
    if not _python_is_made_in_the_job(request, asked.site, facts):
        words, pinned = pin_python(words, python)
        news = pinned or news
    return RankCommand(words, python, news, request.job_name or _on_one_line(_name_of(words)))


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
    if "--" in words[1:] and re.fullmatch(r"[\d.,]+", words[0]):
        message = f"{words[0]} stands before --, and no option takes it"
        raise RequestError(message, hint="a value follows its option at once: --env LR=0.1, -g 4")
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
    wrapper_words, rest = split_wrappers(command)
    wrapper_words = wrapper_words if wrapper_words and basename(wrapper_words[0]) in _BRING_PYTHON else ()
    name = basename(rest[0]) if rest else ""
    if name.startswith("python"):
        return (*wrapper_words, rest[0])
    # uv run train.py: the wrapper brings the Python.
    return (*wrapper_words, "python") if wrapper_words and name.endswith(".py") else (python,)


def _python(request: Request, facts: Facts) -> str | None:
    """Return the interpreter of the environment that the ranks will have."""
    if request.image:
        venv = venv_in_image(request, facts)
        return f"{venv}/bin/python" if venv else None
    asked = request.conda or request.venv
    environment = environment_of(request, facts) if asked else None
    return environment.python if environment else facts.python


def _python_is_made_in_the_job(request: Request, site: Site, facts: Facts) -> bool:
    """Return whether the script itself brings the interpreter: a virtual environment, modules or an image."""
    return environment_of(request, facts) is not None or bool(
        request.module
        or request.image
        or site.profile.modules.load
        or brings_torch(request, site)
        or _brings_software(request, site)
    )


def _brings_software(request: Request, site: Site) -> bool:
    """Return whether a flag of the step brings a software stack, with a Python of its own."""
    flags = (flag.partition("=")[0] for flag in (*request.srun, *request.sbatch))
    return any(flag in site.profile.launch.stack_by_flag for flag in flags)


def _on_one_line(name: str) -> str:
    """Return the name of a file as that of a job: it may hold a line break, a directive may not."""
    return "".join("-" if ord(letter) < ord(" ") or letter == "\x7f" else letter for letter in name)


def _name_of(command: Sequence[str]) -> str:
    """Return the script's name, that of `python -m`'s module, else the program's."""
    has_python = False
    for word, next_word in zip(command, (*command[1:], "")):
        if word.endswith((".py", ".sh")):
            return splitext(basename(word))[0]
        if has_python and word == "-m" and next_word:
            return next_word
        has_python = has_python or basename(word).startswith("python")
    return basename(command[0])
