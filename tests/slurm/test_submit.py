"""Guards what is made of sbatch's answers: the samples are what 22.05, 24.11 and 26.05 said in labs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import SiteError
from muster.slurm.submit import _REJECTIONS, JobId, array_indices, parse_rejection, parse_submit

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "sbatch"

# The kind of a recorded refusal → what its sentence must speak of.
MEANING = {
    "partition": "no such partition",
    "feature": "feature of --constraint",
    "gres": "generic resource",
    "gpus": "no node has what is asked for together",
    "memory": "so much memory",
    "cpus": "so many CPUs",
    "nodes": "no node has what is asked for together",
    "nodelist": "--nodelist or --exclude",
    "reservation": "reservation",
    "dependency": "--dependency",
    "license": "licence",
    "option": "does not know one of the flags",
    "time": "the value of a flag",
    "ntasks": "no node has what is asked for together",
    "account": "not yours",
    "acctqos": "QOS",
}
REFUSED = sorted(path for path in SAMPLES.glob("*.txt") if "error" in path.read_text() or "unrec" in path.read_text())


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_recorded_refusal_is_understood(path: Path) -> None:
    rejection = parse_rejection(path.read_text())
    assert MEANING[path.stem.partition("-")[2]] in rejection.sentence
    assert rejection.hint


def test_every_kind_is_recorded_on_some_version() -> None:
    assert {path.stem.partition("-")[2] for path in REFUSED} == set(MEANING)


@pytest.mark.parametrize(
    "stderr",
    [
        "sbatch: error: Batch job submission failed: The moon is in the wrong phase",
        "sbatch: error: your memory of the rules is short",
        "sbatch: error: partition of the disk is full",
        "sbatch: error: specification: see the wiki",
        "sbatch: error: Ask qos@example.org for an account",
    ],
)
def test_a_near_miss_is_passed_on_in_sbatchs_own_words(stderr: str) -> None:
    rejection = parse_rejection(stderr)
    assert rejection.reason == stderr.split(": ", 2)[2].removeprefix("Batch job submission failed: ")
    assert rejection.sentence == f"Slurm refuses the job: {rejection.reason}"


@pytest.mark.parametrize(
    ("said", "reason", "part"),
    [
        ("type an account\nBatch job submission failed: Unspecified error", "type an account", "type an account"),
        ("Batch job submission failed: Unspecified error", "Unspecified error", "Unspecified error"),
        (
            "QOSMinNode\nBatch job submission failed: Job violates accounting/QOS policy (job submit limit)",
            "QOSMinNode",
            "a limit of your account or QOS does not allow this job: number of jobs, size or time (QOSMinNode)",
        ),
        (
            "Batch job submission failed: No partition specified or system default partition",
            "No partition specified or system default partition",
            "this cluster has no default partition (No partition specified or system default partition)",
        ),
        (
            "Batch job submission failed: Access denied to requested reservation",
            "Access denied to requested reservation",
            "the reservation does not exist, or is not yours (Access denied to requested reservation)",
        ),
    ],
)
def test_what_says_nothing_gives_way_to_the_lines_above(said: str, reason: str, part: str) -> None:
    rejection = parse_rejection("\n".join(f"sbatch: error: {line}" for line in said.split("\n")))
    assert rejection.reason == reason
    assert rejection.sentence == f"Slurm refuses the job: {part}"


def test_a_sites_own_words_above_the_refusal_are_not_its_reason() -> None:
    said = "sbatch: error: Dear user, hello\nsbatch: error: Batch job submission failed: Invalid qos specification\n"
    assert parse_rejection(said).reason == "Invalid qos specification"


@given(st.text(max_size=200))
def test_any_text_is_a_refusal_with_a_sentence_and_a_hint(stderr: str) -> None:
    rejection = parse_rejection(stderr)
    assert rejection.sentence
    assert rejection.hint


@pytest.mark.parametrize(
    ("stdout", "job"),
    [
        ("123\n", JobId("123")),
        ("123;cluster\n", JobId("123", "cluster")),
        ("Welcome to the machine\nQuota: 45 of 100\n123\n", JobId("123")),
        ("123;two-2.x", JobId("123", "two-2.x")),
    ],
)
def test_the_job_id_is_read(stdout: str, job: JobId) -> None:
    assert parse_submit(stdout) == job


@pytest.mark.parametrize(
    "stdout", ["", "\n", "Submitted batch job 123\n", "123 456\n", "job 123", ";cluster\n", "12a\n"]
)
def test_what_holds_no_job_id_is_an_error(stdout: str) -> None:
    with pytest.raises(SiteError, match="no job id"):
        parse_submit(stdout)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-3", [0, 1, 2, 3]),
        ("1,5-7", [1, 5, 6, 7]),
        ("0-15:4", [0, 4, 8, 12]),
        ("0-3%2", [0, 1, 2, 3]),
        ("7", [7]),
        ("0-7:0", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("3-4,4-5", [3, 4, 5]),
        ("x-y", []),
        ("3-1", []),
        ("", []),
    ],
)
def test_the_tasks_of_an_array_are_those_that_sbatch_makes(text: str, expected: list[int]) -> None:
    assert array_indices(text) == expected


def test_a_list_of_more_nodes_than_the_job_asks_for_is_told_as_that() -> None:
    rejection = parse_rejection("sbatch: error: invalid number of nodes (-N 2-1)")
    assert "--nodelist names more nodes than -N asks for" in rejection.sentence
    assert all(pattern == pattern.lower() for pattern, *_ in _REJECTIONS)
