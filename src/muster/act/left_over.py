"""What a job that is over has left on this host: the srun of mpirun, which leads a group of its own and waits on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def end_left_over_steps(job: str) -> None:
    """End each srun of this user's that serves the job."""
    for pid in _steps_of(job):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _steps_of(job: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_step = (folder / "comm").read_text().strip() == "srun" and folder.stat().st_uid == os.getuid()
            if is_step and f"SLURM_JOB_ID={job}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
        except OSError:  # it has ended meanwhile
            continue
