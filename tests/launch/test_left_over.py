"""Guards that a job that is over leaves no srun on the login host, and that nobody else's is ended."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from muster.act.left_over import end_left_over_steps
from muster.runner import start

if TYPE_CHECKING:
    from muster.runner import Process


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[dict[str, Process]]:
    """Programs called srun, of two jobs, each in a group of its own."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, tmp_path / "srun")
    made = {
        job: start([str(tmp_path / "srun"), "300"], env={**os.environ, "SLURM_JOB_ID": job}, own_group=True)
        for job in ("4711", "471")
    }
    for job, process in made.items():  # its name and its variables are there a moment after it was started
        while not _is_step(Path(f"/proc/{process.pid}"), job):
            time.sleep(0.01)
    yield made
    for process in made.values():
        process.kill()
        process.wait()


def _is_step(folder: Path, job: str) -> bool:
    named = (folder / "comm").read_text() == "srun\n"
    return named and f"SLURM_JOB_ID={job}".encode() in (folder / "environ").read_bytes().split(b"\0")


def test_the_srun_of_a_job_that_is_over_ends_and_no_other(steps: dict[str, Process]) -> None:
    end_left_over_steps("4711")

    assert steps["4711"].wait() == -signal.SIGKILL
    assert steps["471"].poll() is None
