"""Guards what is read from srun's own words: the samples are what 22.05, 24.11 and 26.05 said in a lab."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.failure import exit_words
from muster.slurm.srun_messages import read_step

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "srun"
VERSIONS = ("22.05", "24.11", "26.05")


def sample(name: str) -> list[str]:
    """The lines of a recorded step, without the status that the recording added."""
    return (SAMPLES / f"{name}.txt").read_text().splitlines()[:-1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "tasks", "status"),
    [
        ("exit", (3,), 7),
        ("kill", (2,), 137),
        ("segv", (2,), 139),
        ("abrt", (2,), 134),
    ],
)
def test_the_first_rank_is_named_with_its_status(version: str, kind: str, tasks: tuple[int, ...], status: int) -> None:
    first = read_step(sample(f"{version}-{kind}")).first
    assert first is not None
    assert (first.tasks, first.status) == (tasks, status)
    assert first.host is not None
    assert first.sentence.startswith(f"rank {tasks[0]} on {first.host}: {exit_words(status)}")


@pytest.mark.parametrize("version", VERSIONS)
def test_of_two_that_fail_the_one_heard_of_first_counts(version: str) -> None:
    first = read_step(sample(f"{version}-two")).first
    assert first is not None
    assert first.tasks in {(3,), (5,)}
    assert first.status == 7


@pytest.mark.parametrize("version", VERSIONS)
def test_a_core_dump_is_said(version: str) -> None:
    first = read_step(sample(f"{version}-abrt")).first
    assert first is not None
    assert first.sentence.endswith(", core dumped")


@pytest.mark.parametrize("version", VERSIONS)
def test_many_tasks_of_a_host_are_one_ending(version: str) -> None:
    first = read_step(sample(f"{version}-all")).first
    assert first is not None
    assert (len(first.tasks), first.status) == (4, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_ending_from_outside_blames_no_rank(version: str) -> None:
    first = read_step(sample(f"{version}-cancelled")).first
    assert first is not None
    assert first.tasks == ()
    assert "from outside" in first.sentence


def test_a_failed_node_is_the_cause_and_not_the_ranks_that_srun_then_ended() -> None:
    first = read_step(sample("22.05-node-down")).first
    assert first is not None
    assert (first.sentence, first.host, first.tasks) == ("node2 failed", "node2", ())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_step_that_could_not_be_made_is_told(version: str) -> None:
    first = read_step(sample(f"{version}-step")).first
    assert first is not None
    assert "more nodes than the job has" in first.sentence


@pytest.mark.parametrize("version", VERSIONS)
def test_a_step_that_went_well_has_no_failure(version: str) -> None:
    assert read_step(sample(f"{version}-chdir")).first is None


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: node1: task 3: Exited with exit code 0",
        "srun: node1: task 3: Exited with exit code 7",
        "3: srun: error: node1: task 3: Exited with exit code 7",
        "srun: error: node1: task x: Killed",
        "srun: error: node1: task 3-: Killed",
        "srun: error: node1: tasks 0-99999999: Killed",
        "srun: error: node1: Exited with exit code 7",
        "Terminated",
        "srun: Terminating StepId=6.0",
        "slurmstepd-node1: error: *** STEP 6.0 ON node1 CANCELLED AT 2026-11-20T21:03:01 ***",
    ],
)
def test_a_near_miss_is_no_failure(line: str) -> None:
    assert read_step([line]).first is None


def test_words_that_are_new_to_us_are_passed_on() -> None:
    first = read_step(["srun: error: node1: task 3: Eaten by a bear"]).first
    assert first is not None
    assert (first.sentence, first.status) == ("rank 3 on node1: Eaten by a bear", None)


def test_memory_is_named_as_the_cause() -> None:
    first = read_step(["srun: error: node1: tasks 0-5: Out Of Memory"]).first
    assert first is not None
    assert first.status == 137
    assert first.sentence == "ranks 0, 1, 2, 3 and 2 more on node1: ended by the kernel: more memory than the job has"


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_text_is_read_without_an_error(lines: list[str]) -> None:
    read_step(lines)
    read_step([f"srun: error: {line}" for line in lines])


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("JOB REQUEUE", "it was put back into the queue"),
        ("TIME LIMIT", "the time limit was reached"),
        ("PREEMPTION", "a more important job took its nodes"),
    ],
)
@pytest.mark.parametrize(
    "before", ["srun: error: node2: task 1: Terminated", "srun: Job step aborted: Waiting up to 32 seconds for it"]
)
def test_slurms_reason_counts_before_a_task_that_its_sigterm_ended(before: str, reason: str, sentence: str) -> None:
    told = f"slurmstepd-node1: error: *** STEP 3.0 ON node1 CANCELLED AT 2026-11-22T08:02:17 DUE TO {reason} ***"
    first = read_step([before, told, "srun: error: node1: task 0: Terminated"]).first
    assert first is not None
    assert (first.sentence, first.tasks) == (sentence, ())


def test_a_rank_that_failed_by_itself_stays_the_first_cause_of_a_job_that_slurm_ends_later() -> None:
    told = "slurmstepd-node1: error: *** JOB 3 ON node1 CANCELLED AT 2026-11-22T08:02:17 DUE TO JOB REQUEUE ***"
    first = read_step(["srun: error: node2: task 1: Exited with exit code 7", told]).first
    assert first is not None
    assert first.tasks == (1,)
