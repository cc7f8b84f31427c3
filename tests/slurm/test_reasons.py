"""Guards that no reason and no state of the three libslurms is without words, and that an invented one is a value."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.slurm.reasons import REASONS, Clears, reason_of
from muster.slurm.states import STATES, Phase, state_of

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
VERSIONS = ("22.05", "24.11", "26.05")


def _names(kind: str, version: str) -> list[str]:
    lines = (SAMPLES / f"reasons-{version}.txt").read_text().split("\n")
    return [line.split(maxsplit=1)[1] for line in lines if line.startswith(f"{kind} ")]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_reason_of_libslurm_has_words(version: str) -> None:
    names = _names("reason", version)

    assert len(names) > 190
    assert [name for name in names if not reason_of(name).is_known] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_every_state_of_libslurm_has_words(version: str) -> None:
    names = _names("state", version)

    assert len(names) >= 24
    assert [name for name in names if name not in STATES] == []


def test_no_reason_or_state_is_known_that_no_libslurm_has() -> None:
    assert set(REASONS) <= {name for version in VERSIONS for name in _names("reason", version)}
    assert set(STATES) <= {name for version in VERSIONS for name in _names("state", version)}


@pytest.mark.parametrize("invented", ["QOSMaxQuantumPerUser", "Resourcesx", "Moonphase", "a b\nc", "MaxNodePer", "Grp"])
def test_a_reason_invented_last_month_is_shown_as_it_is(invented: str) -> None:
    reason = reason_of(invented)

    assert not reason.is_known
    assert reason.code == invented
    assert repr(invented) in reason.sentence


def test_what_stands_behind_a_code_is_kept() -> None:
    assert reason_of("ReqNodeNotAvail, UnavailableNodes:node[1-2]").detail == "UnavailableNodes:node[1-2]"
    assert (reason_of("RaisedSignal:9(Killed)").code, reason_of("RaisedSignal:9(Killed)").detail) == (
        "RaisedSignal",
        "9(Killed)",
    )
    drained, reserved = (
        reason_of(f"ReqNodeNotAvail, {why}") for why in ("UnavailableNodes:n1", "Reserved for maintenance")
    )
    assert (drained.clears, reserved.clears) == (Clears.UNKNOWN, Clears.ITSELF), (
        "nobody knows when a drained node is back"
    )
    assert "maintenance" not in drained.remedy
    assert reason_of("Dependency").clears is Clears.OTHER_JOB, "a job that is held, or fails, never frees it"
    down = "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions"
    assert reason_of(down).code == "ReqNodeNotAvail"


@pytest.mark.parametrize(
    ("dependency", "remedy"),
    [
        ("afterok:40(unfulfilled)", "muster why 40"),
        ("afterok:40:41_2,afternotok:7(unfulfilled)?after:9+5(unfulfilled)", "muster why 40 41_2 7 9"),
        ("singleton(unfulfilled)", "muster jobs lists your jobs: it waits for those of its name"),
        (None, "muster jobs lists your jobs: it waits for those of its name"),
    ],
)
def test_the_job_that_a_job_waits_for_is_named(dependency: str | None, remedy: str) -> None:
    assert reason_of("Dependency").remedy_for("77", dependency) == remedy


def test_a_limit_on_one_job_is_not_waited_out_but_one_on_all_jobs_is() -> None:
    assert reason_of("QOSMaxWallDurationPerJobLimit").clears is Clears.USER
    assert reason_of("AssocGrpGRESMinutes").clears is Clears.USER
    assert reason_of("QOSMaxJobsPerUserLimit").clears is Clears.ITSELF
    assert "GPUs" in reason_of("QOSMaxGRESPerUser").sentence


def test_states_as_sacct_and_squeue_write_them() -> None:
    assert state_of("CANCELLED by 1000").name == "CANCELLED"
    assert state_of("CANCELLED+").phase is Phase.ENDED_BADLY
    assert state_of("LEVITATING").phase is Phase.UNKNOWN
    assert state_of("").name == "UNKNOWN"


@given(st.text())
def test_no_text_makes_either_fail(text: str) -> None:
    assert reason_of(text).sentence
    assert state_of(text).sentence
