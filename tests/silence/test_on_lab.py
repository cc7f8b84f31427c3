"""A real controller and a real slurmdbd fall silent: each verb says who did not answer, and starts nothing here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

# The verbs that ask for jobs are in tests/life/test_verbs.py, and munge in tests/life/test_munge_on_lab.py.
STARTING = (
    (MUSTER, "run", "-N", "1", "--", "touch", "started"),
    (MUSTER, "run", "-N", "2", "-p", "main", "-t", "10", "--", "touch", "started"),
    (MUSTER, "submit", "--", "touch", "started"),
    (MUSTER, "shell", "--", "touch", "started"),
    (MUSTER, "bench", "-N", "2"),
)
PLAN = (MUSTER, "plan", "-N", "2", "--", "touch", "started")
PYTHON = (sys.executable, "-c", "import muster; muster.submit(['touch', 'started'])")


@pytest.fixture
def slurmdbd_silent(accounting_lab: Lab) -> Iterator[Callable[[], None]]:
    """Return a function that stops slurmdbd; it answers again at the test's end."""

    def stop() -> None:
        checked(accounting_lab.exec(["pkill", "-STOP", "-x", "slurmdbd"]))

    yield stop
    accounting_lab.exec(["pkill", "-CONT", "-x", "slurmdbd"])


def ask(lab: Lab, folder: Path, verbs: tuple[tuple[str, ...], ...]) -> dict[tuple[str, ...], ProgramResult]:
    """Return how each verb ends; they wait beside each other."""

    def start(words: tuple[str, ...]) -> ProgramResult:
        state = f"XDG_STATE_HOME={folder / 'state'}"
        return lab.exec(["env", state, *words], cwd=folder, env={"PATH": path_with()})

    with ThreadPoolExecutor(len(verbs)) as pool:
        return dict(zip(verbs, pool.map(start, verbs), strict=True))


def test_nothing_starts_here_while_the_controller_is_silent(accounting_lab: Lab, shared_directory: Path) -> None:
    plan_before = ask(accounting_lab, shared_directory, (PLAN,))[PLAN]
    checked(accounting_lab.muster("fault", "stop-controller"))
    try:
        results = ask(accounting_lab, shared_directory, (*STARTING, PLAN, PYTHON))
    finally:
        checked(accounting_lab.muster("fault", "restore", "controller"))

    for words in STARTING:
        assert results[words].status == 3, results[words]
        assert "muster: error: the Slurm controller does not answer" in results[words].stderr
        assert "\n\nhint: " in results[words].stderr
    assert results[PYTHON].status == 1
    assert "SchedulerSilent: the Slurm controller does not answer" in results[PYTHON].stderr
    assert results[PLAN] == plan_before
    assert not (shared_directory / "started").exists()
    assert not checked(accounting_lab.exec(["squeue", "--noheader", "--me"])).stdout


def test_a_silent_slurmdbd_hides_no_job_that_the_controller_knows(
    accounting_lab: Lab, shared_directory: Path, slurmdbd_silent: Callable[[], None]
) -> None:
    submitted = accounting_lab.exec(["sbatch", "--parsable", "--wait", "--wrap=exit 4"], cwd=shared_directory)
    assert submitted.status == 4
    job = submitted.stdout.strip()
    results_of = (sys.executable, "-c", f"import muster; print(muster.job({job!r}).results()[0].status)")
    verbs = ((MUSTER, "jobs"), (MUSTER, "why", job), (MUSTER, "status", job), (MUSTER, "status", "99999"), results_of)
    slurmdbd_silent()

    jobs, why, status, unknown, from_python = ask(accounting_lab, shared_directory, verbs).values()

    assert "exit status 4" in checked(jobs).stdout
    assert f"job {job} (wrap) is FAILED" in checked(why).stdout
    assert "exit status 4" in checked(status).stdout
    assert checked(from_python).stdout == "4\n"
    assert unknown.status == 2
    assert "accounting does not answer, and the controller forgets what has ended" in unknown.stderr
