"""Muster as an ordinary user of a lab types it, and what the lab's own Slurm says of the script."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from muster.errors import MachineLacks
from muster.runner import ProgramResult
from muster_lab import labs
from muster_lab.spec import LabSpec
from plugins.labs import Lab, Person

_NEEDED = ("muster", "muster_lint", "muster_lab", "muster_build", "muster_bench", "muster_check", "msgspec")
PYTHON = "/usr/bin/python3"
"""The system's: that of the tests may lie in a closed home."""


def copy_muster(folder: Path) -> Path:
    """Return a folder with Muster and what it needs, which every user of a lab may read."""
    for name in _NEEDED if not folder.exists() else ():
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        shutil.copytree(Path(found.origin).parent, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def muster_of_alice(lab: Lab, folder: Path, *words: str, cwd: Path | None = None) -> ProgramResult:
    """Return what Muster answers to alice."""
    environment = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = lab.exec([PYTHON, "-m", "muster", *words], user="alice", env=environment, cwd=cwd)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def would_take(lab: Lab, script: str) -> ProgramResult:
    """Return what the lab's sbatch says of a script: status 0 where it would take it."""
    return lab.exec(["sbatch", "--test-only"], user="alice", stdin=script)


def header_lines(script: str) -> str:
    """The #SBATCH lines of a script."""
    return "\n".join(line for line in script.splitlines() if line.startswith("#SBATCH"))


@contextmanager
def lab_of(spec: LabSpec, person: Person) -> Iterator[Lab]:
    """A lab of this specification, for as long as the block runs."""
    try:
        labs.up(spec, person.environment(), lambda _: None)
    except MachineLacks as error:
        pytest.skip(error.message)
    try:
        yield Lab(person, spec.name)
    finally:
        labs.down(spec.name, person.environment())


def words_of_size(gpus: int) -> Sequence[tuple[str, ...]]:
    """The ordinary requests: one GPU, a node, two nodes, a job without GPUs; of a cluster without GPUs, ranks."""
    if not gpus:
        return (), ("--ntasks-per-node", "1"), ("-N", "2", "--ntasks-per-node", "1"), ("-g", "0", "-c", "1")
    return ("-g", "1"), ("-g", str(gpus)), ("-N", "2", "-g", str(gpus)), ("-g", "0", "-c", "2")
