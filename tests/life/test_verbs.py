"""Guards the life of a job from submit to its end, in a lab with accounting and in one without, and in its silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from muster.runner import ProgramResult, checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

# Rank 2 fails by itself once all have spoken; the others would go on for a minute.
_SCRIPT = """\
echo "hello from $RANK"
: >"spoken.$RANK"
[ "$RANK" = 2 ] || exec sleep 60
until [ -e spoken.0 ] && [ -e spoken.1 ] && [ -e spoken.3 ]; do sleep 0.1; done
echo "cannot go on" >&2
exit 7
"""
_HOSTILE = 'a|b "c" $(touch pwned) `x` %j\n7 \x1b[31m'


@pytest.fixture(params=["lab", "accounting_lab"])
def any_lab(request: pytest.FixtureRequest, slurm_version: str) -> Lab:
    """The lab without accounts, and the one with them."""
    lab: Lab = request.getfixturevalue(request.param)
    return lab


@pytest.fixture
def muster(any_lab: Lab, shared_directory: Path) -> Callable[..., ProgramResult]:
    """`muster` with words, on the lab's login host, in a directory that all hosts see."""
    return _muster_in(any_lab, shared_directory)


def _muster_in(lab: Lab, folder: Path) -> Callable[..., ProgramResult]:
    environment = {"XDG_STATE_HOME": str(folder / "state")}

    def run_muster(*words: str) -> ProgramResult:
        # The lab itself is found by the state directory of outside.
        inside = ["env", *(f"{name}={value}" for name, value in environment.items()), MUSTER, *words]
        return lab.exec(inside, cwd=folder)

    return run_muster


def _submit(muster: Callable[..., ProgramResult], *words: str) -> str:
    return checked(muster("submit", "--quiet", *words)).stdout.strip()


def _json(result: ProgramResult) -> Any:
    return json.loads(checked(result).stdout)


def test_a_failing_job_is_followed_to_its_end_and_explained(
    muster: Callable[..., ProgramResult], shared_directory: Path
) -> None:
    (shared_directory / "train.sh").write_text(_SCRIPT)
    job = _submit(muster, "-N2", "--ntasks-per-node=2", "-J", "boom", "sh", "train.sh")

    following = muster("logs", "-f", job)
    followed = following.stdout
    status = checked(muster("status", job)).stdout
    why = checked(muster("why", job)).stdout

    assert {f"{rank}: hello from {rank}" for rank in range(4)} <= set(followed.splitlines())
    assert "2: cannot go on" in followed.splitlines()
    assert following.status == 7
    assert f"job {job} (boom) is FAILED" in status
    assert "exit status 7" in status
    assert "rank 2 on node2: exit status 7" in why
    assert "    cannot go on" in why.splitlines()
    assert checked(muster("logs", "--rank", "2", job)).stdout.splitlines() == ["hello from 2", "cannot go on"]
    (entry,) = _json(muster("why", "--json", job))
    assert (entry["state"], entry["exit_code"], entry["ours"]) == ("FAILED", 7, True)
    assert (entry["first_failure"]["ranks"], entry["first_failure"]["status"]) == ([2], 7)
    rows = [json.loads(line) for line in checked(muster("logs", "--json", job)).stdout.splitlines()]
    assert {"rank": 2, "text": "cannot go on"} in rows


def test_a_waiting_job_that_wants_neighbouring_nodes_is_told_so(muster: Callable[..., ProgramResult]) -> None:
    # All four hosts, from tomorrow on: it waits whatever else runs.
    words = ("-N4", "--sbatch=--begin=tomorrow", "--sbatch=--contiguous", "true")
    asking, usual = _submit(muster, *words), _submit(muster, *words[:2], "true")

    told = checked(muster("why", asking)).stdout
    other = checked(muster("why", usual)).stdout
    muster("cancel", asking, usual)

    assert "it asks for nodes side by side (--contiguous)" in told
    assert "--contiguous" not in other


def test_jobs_marks_ours_and_survives_hostile_names(
    any_lab: Lab, muster: Callable[..., ProgramResult], shared_directory: Path
) -> None:
    ours = _submit(muster, "-N1", "true")
    sbatch = ["sbatch", "--parsable", "--output=/dev/null", "--hold", "--job-name", _HOSTILE, "--wrap", "true"]
    other = checked(any_lab.exec(sbatch, cwd=shared_directory)).stdout.strip()

    listed = {entry["job"]: entry for entry in _json(muster("jobs", "--json"))}
    table = checked(muster("jobs")).stdout
    cancelled = muster("cancel", "--json", other, ours)

    assert (listed[ours]["ours"], listed[other]["ours"]) == (True, False)
    assert listed[other]["name"].endswith("7 \x1b[31m")
    assert listed[other]["reason"] == "JobHeldUser"
    assert "\x1b" not in table
    assert other in _json(cancelled)["cancelled"]
    assert _json(muster("status", "--json", other))[0]["state"] == "CANCELLED"
    assert not (shared_directory / "pwned").exists()


def test_a_job_that_is_not_there_is_refused_by_every_verb(muster: Callable[..., ProgramResult]) -> None:
    for verb in ("status", "logs", "why", "cancel"):
        for asked in ("99999", "nonsense", "1;ls"):
            result = muster(verb, asked)
            assert result.status == 2, (verb, asked, result)
            assert "muster: error:" in result.stderr
            assert "hint:" in result.stderr


def test_the_log_of_a_job_that_has_not_begun_is_empty_and_says_so(muster: Callable[..., ProgramResult]) -> None:
    job = _submit(muster, "--sbatch=--hold", "-N1", "true")

    result = muster("logs", job)
    checked(muster("cancel", job))

    assert (result.status, result.stdout) == (0, "")
    assert "nothing yet" in result.stderr


def test_an_array_that_is_half_over_is_cancelled(any_lab: Lab, muster: Callable[..., ProgramResult]) -> None:
    sbatch = ["sbatch", "--parsable", "--output=/dev/null", "--array=0-1", "--hold", "--wrap", "sleep 60"]
    array = checked(any_lab.exec(sbatch)).stdout.strip()
    checked(muster("cancel", f"{array}_0"))

    assert _json(muster("cancel", "--json", array)) == {"cancelled": [array], "over": [], "refused": []}
    assert {entry["state"] for entry in _json(muster("status", "--json", array))} == {"CANCELLED"}
    assert _json(muster("cancel", "--json", array)) == {"cancelled": [], "over": [array], "refused": []}


def test_queues_shows_what_is_free(muster: Callable[..., ProgramResult]) -> None:
    (queue,) = _json(muster("queues", "--json"))

    assert (queue["name"], queue["is_default"], queue["nodes"]) == ("main", True, 4)
    assert queue["gres"] == ["gpu:4"]
    assert queue["cpus_per_node"] == 8
    assert "main*" in checked(muster("queues")).stdout


def _controller_requests(lab: Lab) -> int:
    """How often slurmctld was asked about jobs, partitions and nodes."""
    said = checked(lab.exec(["sdiag"])).stdout
    asked = ("REQUEST_JOB_INFO", "REQUEST_JOB_USER_INFO", "REQUEST_PARTITION_INFO", "REQUEST_NODE_INFO")
    return sum(int(line.split("count:")[1].split()[0]) for line in said.splitlines() if line.strip().startswith(asked))


def test_however_many_jobs_there_are_the_controller_is_asked_twice_at_most(
    any_lab: Lab, muster: Callable[..., ProgramResult]
) -> None:
    sbatch = ["sbatch", "--parsable", "--output=/dev/null", "--hold", "--array=0-99", "--wrap", "true"]
    array = checked(any_lab.exec(sbatch)).stdout.strip()
    ids = [f"{array}_{index}" for index in range(100)]
    checked(any_lab.exec(["scontrol", "update", f"JobId={array}_[0-99]", "Comment=apart"]))

    before = _controller_requests(any_lab)
    checked(muster("jobs"))
    between = _controller_requests(any_lab)
    checked(muster("status", array))
    after = _controller_requests(any_lab)
    checked(muster("cancel", array))

    assert len(ids) == 100
    assert between - before <= 2
    assert after - between <= 2


def test_a_silent_controller_is_told_apart_and_our_own_files_are_read(
    new_lab: Callable[..., Lab], shared_directory: Path, slurm_version: str
) -> None:
    lab = new_lab("-N", "1", "--slurm", slurm_version)
    muster = _muster_in(lab, shared_directory)
    job = _submit(muster, "-N1", "echo", "spoken")
    checked(muster("logs", "-f", job))
    checked(lab.muster("fault", "stop-controller"))

    verbs = (f"status {job}", f"logs {job}", f"why {job}", f"cancel {job}", "jobs", "queues")
    with ThreadPoolExecutor() as together:  # Slurm's clients try for ten seconds and more
        status, logs, *others = together.map(lambda verb: muster(*verb.split()), verbs)
    checked(lab.muster("fault", "restore"))

    assert status.status == 3
    assert "does not answer" in status.stderr
    assert str(shared_directory / "muster-runs") in status.stderr
    assert (logs.status, logs.stdout.splitlines()) == (0, ["0: spoken"])
    for result in others:
        assert result.status == 3, result
        assert "muster: error: the Slurm controller does not answer" in result.stderr
        assert "\n\nhint: " in result.stderr
    assert checked(muster("status", job)).stdout.startswith(f"job {job} ")


def test_accounting_answers_for_a_silent_controller(
    new_lab: Callable[..., Lab], shared_directory: Path, slurm_version: str
) -> None:
    lab = new_lab("-N", "1", "--accounting", "--slurm", slurm_version)
    muster = _muster_in(lab, shared_directory)
    job = _submit(muster, "-N1", "sh", "-c", "exit 9")
    assert muster("logs", "-f", job).status == 9
    checked(lab.muster("fault", "stop-controller"))

    why = muster("why", job)
    checked(lab.muster("fault", "restore"))

    assert why.status == 0
    assert "is FAILED" in why.stdout
    assert "exit status 9" in why.stdout
