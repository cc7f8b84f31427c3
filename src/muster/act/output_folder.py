"""The folders of -o and -e: Slurm makes none, and a job whose output has no place dies before its first word."""

from __future__ import annotations

from pathlib import Path

from muster.errors import RequestError
from muster.model.plan import Plan

_OPTIONS = {"output": "-o", "error": "-e"}


def make_output_folders(plan: Plan) -> None:
    """Make the folders that the plan's output files lie in, or refuse what Slurm would fill in."""
    for directive in plan.directives:
        if directive.name not in _OPTIONS or not directive.value:
            continue
        folder = Path(plan.working_directory, directive.value).parent
        option = f"{_OPTIONS[directive.name]} {directive.value}"
        if "%" in str(folder):
            raise RequestError(
                f"{option}: only Slurm knows the name of its folder, but Slurm does not make folders",
                hint="write % only in the file's name: reports/R-%x.%j.out",
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(
                f"{option}: the folder {folder} cannot be made: {error.strerror}",
                hint="name a folder that you can write",
            ) from None
