"""Where a program lies on PATH."""

from __future__ import annotations

import os
from collections.abc import Mapping


def on_path(program: str, environment: Mapping[str, str]) -> str | None:
    """Return the path of a program as `shutil.which` does, which costs a launch as much as five modules of Muster."""
    if "/" in program:
        return program if _may_run(program) else None
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return next((path for folder in folders if _may_run(path := f"{folder or '.'}/{program}")), None)


def has_slurm_clients(environment: Mapping[str, str]) -> bool:
    """Return whether Slurm's clients are installed here."""
    return on_path("scontrol", environment) is not None


def _may_run(path: str) -> bool:
    return os.access(path, os.X_OK) and not os.path.isdir(path)
