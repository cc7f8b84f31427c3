"""muster logs of a job that Slurm has forgotten, and that no record knows: its script was queued with a bare sbatch."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from api.stubs import Stub
from muster.runner import ProgramResult
from plugins.forked import run_muster


@pytest.fixture
def forgotten(tmp_path: Path) -> Path:
    """Return a folder in which job 17 has run, which Slurm does not know any more."""
    stub = Stub.at(tmp_path / "slurm")
    stub.forget()
    folder = tmp_path / "work"
    (folder / "muster-runs/17/logs").mkdir(parents=True)
    (folder / "mine.out").write_text("muster: a word\n0: line of 0\n1: line of 1")
    (folder / "muster-runs/17/output").write_text(f"{folder}/mine.out\n")
    return folder


def logs(folder: Path, *words: str) -> ProgramResult:
    environment = {**os.environ, "PATH": f"{folder.parent}/slurm/bin:{os.environ['PATH']}", "HOME": str(folder)}
    return run_muster(["logs", *words], env=environment, cwd=folder)


def test_its_output_is_the_file_that_its_run_directory_names(forgotten: Path) -> None:
    done = logs(forgotten, "17")
    assert (done.status, done.stdout) == (0, (forgotten / "mine.out").read_text() + "\n"), done.stderr
    assert f"muster-runs/17/output names {forgotten}/mine.out" in done.stderr
    assert logs(forgotten, "17", "--rank", "1").stdout == "line of 1\n"
    (line,) = logs(forgotten, "17", "--rank", "0", "--json").stdout.splitlines()
    assert json.loads(line) == {"rank": 0, "text": "line of 0"}


@pytest.mark.parametrize("damage", ["no file", "no name", "no job"])
def test_without_that_file_the_job_is_unknown(forgotten: Path, damage: str) -> None:
    if damage == "no file":
        (forgotten / "mine.out").unlink()
    elif damage == "no name":
        (forgotten / "muster-runs/17/output").unlink()
    done = logs(forgotten, "18" if damage == "no job" else "17")
    assert done.status != 0
    assert done.stdout == ""
    assert "Slurm knows no job 1" in done.stderr
