"""A host that is paused, a link that is cut: the watch of the job names the host and its rank."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import MUSTER, Lab, Person, lab_up
from plugins.patience import patient
from stacks.hanging_jobs import submit

_AFTER_S = 8
_LATE_S = 60
_TRAINS = """\
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)
while True:
    dist.all_reduce(one)
    time.sleep(0.2)
"""


# Slurm itself takes a node for dead after 300 s on most clusters, but after 10 s on a lab.
_AS_ELSEWHERE = """
conf=$(scontrol show config | sed -n 's/^SLURM_CONF *= //p')
sed -i 's/^SlurmdTimeout=.*/SlurmdTimeout=300/' "$conf" && scontrol reconfigure
"""


@pytest.fixture(scope="module")
def patient_lab(tester: Person) -> Iterator[Lab]:
    with lab_up(tester, "patient") as lab:
        checked(lab.exec(["sh", "-c", _AS_ELSEWHERE]))
        yield lab


def _text_of(folder: Path, name: str) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.glob(name))


def _wait_until(folder: Path, name: str, words: str, count: int, seconds: float) -> str:
    """Return what files of a folder say, once they say the words so often, or after so many seconds."""
    deadline = time.monotonic() + patient(seconds)
    text = ""
    while text.count(words) < count and time.monotonic() < deadline:
        time.sleep(0.3)
        text = _text_of(folder, name)
    return text


@contextmanager
def _broken(lab: Lab, fault: str, host: str) -> Iterator[None]:
    checked(lab.muster("fault", fault, host))
    try:
        yield
    finally:
        checked(lab.muster("fault", "restore", host))


def _last_host(lab: Lab, job: str) -> str:
    """Return the last host of a job: the watch runs on the first."""
    names = checked(lab.exec(["sh", "-c", f"scontrol show hostnames $(squeue -h -j {job} -o %N)"])).stdout
    return names.split()[-1]


@pytest.mark.lab
@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
@pytest.mark.parametrize("fault", ["pause-node", "cut-link"])
def test_a_host_that_does_not_answer_is_named(
    patient_lab: Lab, shared_directory: Path, fault: str, launcher: str
) -> None:
    lab = patient_lab
    script = shared_directory / "trains.py"
    script.write_text(_TRAINS)
    job, directory = submit(lab, shared_directory, script, launcher, _AFTER_S)
    try:
        logs = _wait_until(directory, "logs/node*.log", "begins", 2, 60)
        assert logs.count("begins") == 2, logs
        host = _last_host(lab, job)
        with _broken(lab, fault, host):
            began = time.time()
            text = _wait_until(directory, "hang", "does not answer", 1, _AFTER_S + _LATE_S)
            report = directory / "hang"
            assert f"{host} (rank 1) does not answer" in text, text + _text_of(directory, "logs/batch.log")
            late_s = report.stat().st_mtime - began - _AFTER_S
            print(f"{fault} under {launcher}: {late_s:.0f} s after the time set: {report.read_text()}")
            assert "1 rank waits in all_reduce at trains.py:" in text
            assert "there is no process" not in _text_of(directory, "logs/batch.log")
            assert late_s <= _LATE_S
            done = lab.exec([MUSTER, "why", job])
            assert f"{host} (rank 1) does not answer" in done.stdout, done.stdout + done.stderr
            stacks = lab.exec([MUSTER, "stacks", job])
            assert f"warning: {host} does not answer: nothing is known of the ranks there" in stacks.stderr
            assert "there is no process" not in stacks.stdout
    finally:
        checked(lab.exec(["scancel", job]))
