"""--hang: a job that writes nothing is looked at, twice; it says who hangs, and begins again where it may."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.model.plan import Plan
from muster.render.script import job_part, job_script
from muster.runner import checked
from plugins.labs import Lab

MUSTER = str(Path(sys.executable).with_name("muster"))
_ONCE = """\
import os
import threading
import time

RANK, ATTEMPT = int(os.environ["RANK"]), os.environ["MUSTER_ATTEMPT"]
print("attempt", ATTEMPT, flush=True)


def load():
    time.sleep(1000)


if RANK == 1 and ATTEMPT == "1":
    load()
if ATTEMPT == "1":
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
print("done", flush=True)
"""


def _plan(*options: str) -> Plan:
    facts = replace(FACTS, own_python="/opt/muster/bin/python")
    return plan(*options, "--", "python", "train.py", facts=facts)


def test_a_queued_job_is_watched_unasked_and_as_asked() -> None:
    assert (
        "    muster_watch_silence seconds=1800 python=/opt/muster/bin/python  # reports ranks that hang\n"
        in job_part(_plan())
    )
    assert (
        "    muster_watch_silence seconds=300 python=/opt/muster/bin/python  # reports ranks that hang\n"
        in job_part(_plan("--hang", "5m"))
    )
    assert (
        "muster_watch_silence seconds=300 python=/opt/muster/bin/python then=restart  # reports ranks that hang\n"
        in job_part(_plan("--hang", "5m", "--restart", "2"))
    )
    assert "muster_watch_silence" not in job_script(_plan("--hang", "off"))


def test_the_watch_of_the_one_file_is_started_from_the_folder_that_it_was_unpacked_into() -> None:
    facts = replace(FACTS, own_python="/usr/bin/python3", own_folder="/home/ada/one file/1")
    job = job_script(plan("--", "python", "train.py", facts=facts))
    assert "muster_watch_silence seconds=1800 python=/usr/bin/python3 folder='/home/ada/one file/1'" in job


@pytest.mark.lab
def test_a_hang_is_named_and_the_ranks_start_again(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "once.py").write_text(_ONCE)
    size = ["-N", "2", "--ntasks-per-node", "1", "--hang", "6s", "--restart", "1", "--grace", "1"]
    submit = [MUSTER, "submit", *size, "--", sys.executable, "once.py"]
    job = checked(lab.exec(submit, cwd=shared_directory)).stdout.strip()
    log = checked(lab.exec([MUSTER, "logs", "-f", job])).stdout
    assert log.count("done") == 2
    assert "hang: hint: look at that line\n" in log
    why = checked(lab.exec([MUSTER, "why", job])).stdout
    assert re.search(r"attempt 1: no rank has gone on for 6 s: rank 1 on node\d sleeps at once.py:10 \(load\)", why)
    assert "attempt 2: it ended well" in why
