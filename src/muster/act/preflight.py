"""What can be seen to fail before anybody waits: a script that is missing, a path compute nodes cannot see."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from os import path as paths

from muster.errors import MachineLacks, RequestError
from muster.launchers import launcher_named
from muster.launchers.base import Starter
from muster.look.first_word import meant_program, notes_on_command
from muster.look.programs import on_path
from muster.model.finish import TASK
from muster.model.plan import Engine, Note, Plan, PreludeKind
from muster.ownership import AnyPath, names_in
from muster.plan.sweep import command_of_row
from muster.runner import run

LAB_FOLDERS = "MUSTER_LAB_FOLDERS"
"""What `muster lab exec` sets: the folders of /tmp and the like that all hosts of the lab see, one a line."""

# Directories that every host has for itself: what lies there is not there on another node. A lab's hosts share
# this machine's /var/tmp.
_PRIVATE = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108  # named, not used


def check_before_start(plan: Plan, environment: Mapping[str, str]) -> list[Note]:
    """Refuse what cannot work; return what may not."""
    directory = plan.working_directory
    if not paths.isdir(directory):
        raise RequestError(
            f"the working directory {directory} is not there", hint="make it, or give another with --chdir"
        )
    private = tuple(path for path in _PRIVATE if path != "/var/tmp" or LAB_FOLDERS not in environment)  # noqa: S108
    _check_environment(plan, private)
    environment = {**environment, "PATH": _path_of_ranks(plan, environment)}
    notes: list[Note] = []
    if plan.image.image is None:
        for number in range(len(plan.sweep.rows) if plan.sweep is not None else 1, 0, -1):
            words = list(command_of_row(plan, number))
            _check_command(words, directory, plan, environment)
        notes = [Note(text, warning=True) for text in notes_on_command(words, directory, environment)]
    if plan.finish is not None and plan.finish.checkpoint:
        _check_checkpoints(plan.finish.checkpoint.partition(TASK)[0])
    if plan.engine is Engine.SLURM:
        launcher = launcher_named(plan.launcher)
        if plan.mpi and launcher.starts_ranks and launcher.starter(plan.engine) is Starter.STEP:
            _check_mpi(plan.mpi)
        notes += _private_paths(plan, private, environment.get(LAB_FOLDERS, "").splitlines())
    return notes


def _path_of_ranks(plan: Plan, environment: Mapping[str, str]) -> str:
    """Return PATH with the programs of the virtual environments that the ranks get."""
    folders = [command.folder for command in plan.prelude if command.kind is PreludeKind.VENV]
    own_folders = (paths.join(plan.working_directory, folder, "bin") for folder in reversed(folders))
    return os.pathsep.join([*own_folders, environment.get("PATH", "")])


def _check_environment(plan: Plan, private: tuple[str, ...]) -> None:
    """Refuse a virtual environment that is not there, where this host sees the folder that it should be in."""
    for folder in (command.folder for command in plan.prelude if command.kind is PreludeKind.VENV):
        environment = paths.join(plan.working_directory, folder)
        if paths.exists(f"{environment}/bin/activate") or environment.startswith(private):
            continue
        if paths.isdir(paths.dirname(environment)):
            raise RequestError(
                f"there is no virtual environment in {environment}", hint="name the folder that holds bin/activate"
            )


def _check_checkpoints(name: AnyPath) -> None:
    """Refuse a folder of checkpoints that the ranks cannot write and that cannot be made."""
    from pathlib import Path

    folder = Path(name)
    if folder.exists() and not folder.is_dir():
        raise RequestError(
            f"--checkpoint {folder} is not a directory", hint="name the folder that the checkpoints are in"
        )
    if folder.exists() and not os.access(folder, os.W_OK):
        raise RequestError(
            f"--checkpoint {folder} cannot be written by you", hint="name a folder that the ranks can write"
        )
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not folder.exists() and not (existing.is_dir() and os.access(existing, os.W_OK)):
        raise RequestError(
            f"--checkpoint {folder} is not there, and cannot be made in {existing}", hint="make it, or name another"
        )


def _check_mpi(mpi_type: str) -> None:
    """Refuse an MPI type that this Slurm was not built with: Slurm reports it only after the wait.

    `none` always works.
    """
    from muster.slurm.cluster import MPI_TYPES

    answer = run(MPI_TYPES.argv)
    offered = MPI_TYPES.read(answer.stdout + answer.stderr)  # 22.05 writes to stderr
    if answer.ok and offered and mpi_type not in {*offered, "none"}:
        raise RequestError(
            f"this Slurm offers no --mpi {mpi_type}", hint=f"it has {', '.join(offered)}: srun --mpi=list"
        )


def _check_command(words: list[str], directory: str, plan: Plan, environment: Mapping[str, str]) -> None:
    program = words[0]
    if "/" in program:
        _check_file(paths.join(directory, program), program, executable=True)
    elif plan.engine is Engine.HERE and on_path(program, environment) is None:
        hint = meant_program(program) or "give its path, or install it"
        raise MachineLacks(program, f"the program {program!r} is not on PATH", hint=hint)
    if paths.basename(program).startswith("python"):
        script = next((word for word in words[1:] if not word.startswith("-")), None)
        if script is not None and script.endswith(".py") and "-m" not in words[: words.index(script)]:
            _check_file(paths.join(directory, script), script, executable=False)


def _check_file(path: str, shown_name: str, *, executable: bool) -> None:
    if paths.isdir(path):
        raise RequestError(f"{shown_name} is a directory, not a program", hint="give the script's own path")
    if not paths.exists(path):
        if re.match(r"(python|sh|bash)\S* ", shown_name):
            raise RequestError(
                f"the command is one word, {shown_name!r}, but there is no such file",
                hint=f"write it without quotes: -- {shown_name}",
            )
        folder, ending = paths.dirname(path), paths.splitext(path)[1]
        near = [name for name in names_in(folder) if name.endswith(ending) and name[0] != "."][:5]
        hint = f"in {folder}: {', '.join(near)}" if near else f"looked for {path}"
        raise RequestError(f"there is no file {shown_name}", hint=hint)
    if executable and not os.access(path, os.X_OK):
        raise RequestError(
            f"{shown_name} may not be executed",
            hint=f"chmod +x {shown_name}, or name its interpreter: python {shown_name}",
        )
    if not executable and not os.access(path, os.R_OK):
        raise RequestError(f"{shown_name} may not be read", hint=f"chmod +r {shown_name}")


def _private_paths(plan: Plan, private: Sequence[str], shared_paths: Sequence[str]) -> list[Note]:
    """Return a note on paths that exist on this host alone; those below `shown` are on every host."""
    image = plan.image.name
    suspects = [
        plan.working_directory,
        *([plan.python.removesuffix("/bin/python")] if plan.staging is None else []),
        *([image] if image.startswith("/") else []),
        *([plan.finish.checkpoint] if plan.finish is not None and plan.finish.checkpoint else []),
        *(word for word in command_of_row(plan, 1) if word.startswith("/")),
    ]
    private_paths = [path for path in suspects if _lies_below(path, private) and not _lies_below(path, shared_paths)]
    return [
        Note(
            f"{path} lies in a directory that every host has for itself: the compute nodes will not see it",
            warning=True,
        )
        for path in dict.fromkeys(private_paths)
    ]


def _lies_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
