"""What is to be staged, as this host sees it: links followed, the environment's own Python found. Starts no process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from muster.facts import Facts, StagingFacts
from muster.job.request import Request
from muster.ownership import text_of
from muster.plan.python_environment import environment_of

# What every node has of its own: its Python is not fetched from anywhere.
_OF_THE_SYSTEM = ("/usr", "/bin", "/lib", "/lib64")


# Of a Python that a virtual environment was made from: they stay the shared ones.
_NOT_FOR_RANKS = ("site-packages", "test", "config-3*")


def look_at_staging(request: Request, facts: Facts) -> Facts:
    """Return the facts, with what staging needs to know; unchanged where nothing is to be staged."""
    if not (request.stage_env or request.stage or request.stage_out):
        return facts
    working_directory = Path(facts.working_directory)
    working = working_directory / (request.chdir or "")
    names = [*request.stage, *([request.stage_out] if request.stage_out else []), facts.working_directory, str(working)]
    if request.stage_env and request.image:
        names.append(str(request.image))
    paths = {name: working_directory / name for name in names}
    environment = environment_of(request, facts) if request.stage_env else None
    folder = (working_directory / environment.folder).resolve() if environment else None
    return replace(
        facts,
        staging=StagingFacts(
            kinds={name: _kind(path) for name, path in paths.items()},
            real_paths={name: str(path.resolve()) for name, path in paths.items()},
            environment=tuple(map(str, _environment(folder))) if folder else (),
            leave_out=tuple(map(str, _leave_out(folder))) if folder else (),
            relocatable=folder is not None and "relocatable = true" in text_of(folder / "pyvenv.cfg"),
            signs=tuple(map(str, _signs(folder))) if folder else (),
            script=_script(request.command, working) if request.stage_env else None,
        ),
    )


def _kind(path: Path) -> str:
    if path.is_dir():
        return "tree"
    return "file" if path.is_file() else "missing"


def _environment(folder: Path) -> Iterator[Path]:
    """Yield the folder, and of the Python it was made from: the program, and the folder of its libraries."""
    if not folder.is_dir():
        return
    yield folder
    program = (folder / "bin/python").resolve()
    if program.is_relative_to(folder) or any(program.is_relative_to(system_folder) for system_folder in _OF_THE_SYSTEM):
        return
    yield program
    yield program.parent.parent / "lib"


def _leave_out(folder: Path) -> Iterator[Path]:
    """Yield what others keep beside it: a conda's environments, the packages of a venv's own Python."""
    yield from (folder / name for name in ("envs", "pkgs") if (folder / name).is_dir())
    if "include-system-site-packages = true" not in text_of(folder / "pyvenv.cfg"):
        for path in _environment(folder):
            yield from (file for name in _NOT_FOR_RANKS for file in sorted(path.glob(f"python3*/{name}")))


def _signs(folder: Path) -> Iterator[Path]:
    yield folder
    yield from sorted((folder / "lib").glob("python3*/site-packages"))


def _script(command: tuple[str, ...], working: Path) -> tuple[str, str] | None:
    """Return the first word that ends in .py and is a file, where Python is what runs it."""
    if not command or not (command[0].endswith(".py") or Path(command[0]).name.startswith("python")):
        return None
    for word in command:
        if word in {"-m", "-c"}:
            return None
        if word.endswith(".py"):
            path = (working / word).resolve()
            return (word, str(path)) if path.is_file() else None
    return None
