"""The folder of torchrun's own files: made for each agent, and removed also after a keeper that was killed."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from muster.rank import agent_keeper


def _folder(place: Path, name: str, age_s: float) -> Path:
    path = place / name
    path.mkdir()
    (path / "stderr.log").touch()
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_what_a_killed_keeper_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    _folder(tmp_path, "muster-agent-7-left", 3600)
    held = _folder(tmp_path, "muster-agent-8-held", 3600)
    young = _folder(tmp_path, "muster-agent-9-young", 5)
    foreign = _folder(tmp_path, "other-agent", 3600)
    (tmp_path / "muster-agent-file").touch()
    os.utime(tmp_path / "muster-agent-file", (0, 0))
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    own = Path(agent_keeper._log_directory())

    os.close(descriptor)
    assert {path.name for path in tmp_path.iterdir()} == {
        own.name, held.name, young.name, foreign.name, "muster-agent-file"
    }  # fmt: skip
    assert own.stat().st_mode & 0o777 == 0o700
    # The next one finds it locked.
    os.utime(own, (0, 0))
    agent_keeper._log_directory()
    assert own.is_dir()
    # Its owner is gone: the other folder is removed now.
    assert not held.exists()


def test_another_user_s_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left = _folder(tmp_path, "muster-agent-7-left", 3600)
    monkeypatch.setattr(os, "getuid", lambda: 4711)

    agent_keeper._log_directory()

    assert left.is_dir()


@pytest.mark.parametrize(("of_part", "told"), [({"muster_part_job": "8"}, "8.3"), ({}, "7.3")])
def test_the_other_agents_of_a_step_are_told_by_the_job_of_their_part(
    of_part: dict[str, str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a further part SLURM_JOB_ID is that of the first, and no step has that name."""
    (tmp_path / "scancel").write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/new\nmv {tmp_path}/new {tmp_path}/said\n')
    (tmp_path / "scancel").chmod(0o755)
    of_task = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "3", "SLURM_STEP_NUM_NODES": "2", **of_part}
    monkeypatch.delenv("muster_part_job", raising=False)
    for name, value in {**of_task, "PATH": f"{tmp_path}:{os.environ['PATH']}"}.items():
        monkeypatch.setenv(name, value)

    agent_keeper._tell_other_nodes()
    os.wait()

    assert (tmp_path / "said").read_text() == f"--quiet --signal=URG {told}\n"
