"""A conda environment by its name: where conda keeps such folders. No conda is started: it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from muster.errors import UnknownName
from muster.facts import Facts
from muster.job.request import Request


def find_conda(request: Request, facts: Facts) -> Request:
    """Return the request with the folder of the environment in its name's place."""
    name = request.conda
    if name is None:
        return request
    if "/" in name:
        folder = Path(facts.working_directory, name)
        return replace(request, conda=str(folder))
    paths_by_name = {path.name: path for path in _environments(facts)}
    if name not in paths_by_name:
        raise UnknownName("conda environment", name, sorted(paths_by_name))
    return replace(request, conda=str(paths_by_name[name]))


def _environments(facts: Facts) -> Iterator[Path]:
    """Yield the environments of $CONDA_ENVS_PATH, of the active conda, and all that conda has recorded.

    The first wins.
    """
    folders = [Path(entry) for entry in facts.environment.get("CONDA_ENVS_PATH", "").split(":") if entry]
    program = facts.environment.get("CONDA_EXE")
    folders += [Path(program).parent.parent / "envs"] if program else []
    candidates = [
        environment
        for folder in [*folders, Path(facts.home, ".conda/envs")]
        if folder.is_dir()
        for environment in folder.iterdir()
    ]
    list_file = Path(facts.home, ".conda/environments.txt")
    if list_file.is_file():
        candidates += [
            Path(line.strip()) for line in list_file.read_text(encoding="utf-8").splitlines() if line.strip()
        ]
    yield from (candidate for candidate in reversed(candidates) if (candidate / "conda-meta").is_dir())
