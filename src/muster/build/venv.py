"""A virtual environment, made where it will stand: requirements first, Horovod after them, and a record of all of it.

A virtual environment does not move, so it is made at its own path; one that is not finished is taken away again, and
the record is written last: an environment without one was not made here.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from muster.act.runner import Result, Runner, run
from muster.build.horovod import add_horovod, look_at_target
from muster.errors import CommandFailed, RequestError, UnknownName

__all__ = ["PARTS", "RECORD", "Recipe", "build_venv"]

# What can be built on top of the requirements.
PARTS = ("horovod",)

# Beside pyvenv.cfg: what the environment was made from, and with.
RECORD = "muster-build.json"

# What the shell's own Python would bring into the new one.
_OF_ANOTHER = frozenset({"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"})

_PIP_S = 3600.0

Say = Callable[[str], None]


class Recipe(msgspec.Struct, frozen=True):
    """What an environment is made from."""

    python: str
    requirements: tuple[Path, ...] = ()
    parts: tuple[str, ...] = ()
    nccl: Path | None = None


def build_venv(folder: Path, recipe: Recipe, environment: Mapping[str, str], say: Say, runner: Runner = run) -> None:
    """Make the environment; `environment` is the shell's, whose PATH leads to the compilers and MPI of its modules."""
    _check(folder, recipe)
    clean = {
        name: value for name, value in environment.items() if name not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    }
    finished = False
    try:
        say(f"making {folder} with {recipe.python}")
        _step(runner([recipe.python, "-m", "venv", str(folder)], env=clean, timeout_s=300), "python -m venv")
        python = folder / "bin/python"
        for file in recipe.requirements:
            say(f"installing what {file} lists")
            words = ["-m", "pip", "--disable-pip-version-check", "install", "--requirement", str(file)]
            _step(runner([str(python), *words], env=clean, timeout_s=_PIP_S), f"pip install --requirement {file}")
        built_with: dict[str, object] = {}
        if "horovod" in recipe.parts:
            report = add_horovod(python, clean, say, nccl=recipe.nccl, runner=runner)
            target = look_at_target(python, clean, nccl=recipe.nccl, runner=runner)
            built_with["horovod"] = {**msgspec.structs.asdict(target), "holds": sorted(report.parts)}
        (folder / RECORD).write_text(json.dumps(_record(python, recipe, clean, built_with, runner), indent=2) + "\n")
        finished = True
    finally:
        if not finished:
            shutil.rmtree(folder, ignore_errors=True)


def _check(folder: Path, recipe: Recipe) -> None:
    if folder.exists() or folder.is_symlink():
        raise RequestError(f"{folder} is there already", hint="give another directory, or take it away first")
    for part in recipe.parts:
        if part not in PARTS:
            raise UnknownName("part of an environment", part, PARTS)
    if recipe.nccl is not None and "horovod" not in recipe.parts:
        raise RequestError("--nccl says with which NCCL Horovod is built, and none is", hint="--with horovod")
    for file in recipe.requirements:
        if not file.is_file():
            raise RequestError(f"there is no file {file}", hint="--requirements takes a file as pip reads it")


def _step(result: Result, what: str) -> None:
    """The step went well, or the line in which it says why not."""
    if result.ok:
        return
    lines = (result.stderr or result.stdout).strip().splitlines() or ["it said nothing"]
    why = next((line for line in lines if line.startswith("ERROR: ")), lines[-1]).removeprefix("ERROR: ")
    raise CommandFailed(
        result.argv, result.status, "", f"{what}: {why}", hint="nothing was left behind; mend and repeat"
    )


def _record(
    python: Path, recipe: Recipe, environment: Mapping[str, str], built_with: Mapping[str, object], runner: Runner
) -> dict[str, object]:
    """What a later run can be compared with."""
    frozen = runner([str(python), "-m", "pip", "--disable-pip-version-check", "freeze"], env=environment)
    version = runner([str(python), "-c", "import platform; print(platform.python_version())"], env=environment)
    return {
        "schema": 1,
        "python": version.stdout.strip(),
        "arch": platform.machine(),
        "requirements": [str(file) for file in recipe.requirements],
        "modules": [name for name in environment.get("LOADEDMODULES", "").split(":") if name],
        "packages": _lines(frozen.stdout.splitlines()),
        **built_with,
    }


def _lines(lines: Sequence[str]) -> list[str]:
    return sorted(line.strip() for line in lines if line.strip())
