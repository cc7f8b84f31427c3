"""A conda environment by its name: where conda keeps such folders. No conda is started: it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from muster.errors import UnknownName
from muster.facts import Facts
from muster.job.request import Request

__all__ = ["find_conda"]


def find_conda(request: Request, facts: Facts) -> Request:
    """Return the request with the folder of the environment in its name's place."""
    name = request.conda
    if name is None:
        return request
    if "/" in name:
        folder = Path(facts.working_directory, Path(name).expanduser())
        return replace(request, conda=str(folder))
    known = {path.name: path for path in _environments(facts)}
    if name not in known:
        raise UnknownName("conda environment", name, sorted(known))
    return replace(request, conda=str(known[name]))


def _environments(facts: Facts) -> Iterator[Path]:
    """Those of $CONDA_ENVS_PATH, of the conda that is active, and all that conda has written down. The first wins."""
    folders = [Path(each) for each in facts.environment.get("CONDA_ENVS_PATH", "").split(":") if each]
    program = facts.environment.get("CONDA_EXE")
    folders += [Path(program).parent.parent / "envs"] if program else []
    found = [
        each for folder in [*folders, Path(facts.home, ".conda/envs")] if folder.is_dir() for each in folder.iterdir()
    ]
    listed = Path(facts.home, ".conda/environments.txt")
    if listed.is_file():
        found += [Path(line.strip()) for line in listed.read_text(encoding="utf-8").splitlines() if line.strip()]
    yield from (each for each in reversed(found) if (each / "conda-meta").is_dir())
