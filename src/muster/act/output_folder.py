"""The folders of -o and -e: before 23.02 Slurm made none, and a job without one died before its first word."""

from __future__ import annotations

import os
import re
from pathlib import Path

from muster.errors import RequestError
from muster.model.plan import Plan
from muster.runner import Runner

_OPTIONS = {"output": "-o", "error": "-e"}


def make_output_folders(plan: Plan, runner: Runner) -> None:
    """Make the folders that the plan's output files lie in; an old Slurm's own part of a folder's name is refused."""
    for directive in plan.directives:
        if directive.name not in _OPTIONS or not directive.value:
            continue
        folder = Path(plan.working_directory, directive.value).parent
        option = f"{_OPTIONS[directive.name]} {directive.value}"
        if "%" in str(folder):
            if _is_old(runner):
                raise RequestError(
                    f"{option}: only Slurm knows the name of its folder, and this Slurm, older than 23.02, makes none",
                    hint="write % only in the file's name: reports/R-%x.%j.out",
                )
            folder = Path(str(folder).partition("%")[0] + "x").parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(
                f"{option}: the folder {folder} cannot be made: {error.strerror}",
                hint="name a folder that you can write",
            ) from None
        file = Path(plan.working_directory, directive.value)
        if file.is_dir():
            raise RequestError(f"{option} is a folder", hint=f"name a file in it: {option.rstrip('/')}/%x-%j.log")
        if file.is_fifo():
            raise RequestError(f"{option} is a pipe: the job would wait for its reader", hint="name a file")
        if not os.access(place := file if file.exists() else folder, os.W_OK):
            raise RequestError(f"{option}: you cannot write {place}", hint="name a file that you can write")


def _is_old(runner: Runner) -> bool:
    """Ask sbatch whether it is older than the first Slurm that makes the folders of an output."""
    found = re.match(r"slurm (\d+)\.(\d+)", runner(["sbatch", "--version"], timeout_s=5).stdout)
    return found is not None and (int(found[1]), int(found[2])) < (23, 2)
