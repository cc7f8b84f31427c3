"""Guards that what squeue and sacct say becomes the same jobs on every version; nothing they say is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import RequestError
from muster.slurm.jobs import ask_accounting, ask_controller, parse_job_id, parse_sacct, parse_squeue
from muster.slurm.states import Phase

SAMPLES = Path(__file__).resolve().parents[1] / "samples"


def _sample(name: str) -> str:
    return (SAMPLES / name).read_bytes().decode()


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_squeue_of_each_version_gives_the_same_jobs(version: str) -> None:
    jobs = {job.name: job for job in parse_squeue(_sample(f"squeue-{version}.txt"))}

    failed = jobs['evil|"name" $(x) `y` and more than twenty characters']
    assert (failed.state.name, failed.exit_code, failed.signal, failed.status) == ("FAILED", 7, 0, 7)
    assert failed.is_ours
    killed = jobs["new\nline"]
    assert (killed.state.name, killed.signal, killed.status) == ("FAILED", 9, 137)
    assert jobs["sep\x1fx"].state.name == "COMPLETED"
    waiting = next(job for job in parse_squeue(_sample(f"squeue-{version}.txt")) if job.shown_id.endswith("_[2-3%1]"))
    assert waiting.state.phase is Phase.WAITING
    assert waiting.reason.is_known
    assert waiting.started is None
    assert waiting.time_limit_s == 600
    assert all(job.submitted and job.submitted > 1_700_000_000 for job in jobs.values())


def test_sacct_gives_jobs_whose_names_hold_line_breaks_and_separators() -> None:
    jobs = {job.name: job for job in parse_sacct(_sample("sacct-22.05.txt"))}

    assert jobs["new\nline"].status == 137
    assert jobs["three"].exit_code == 3
    assert jobs["three"].node_list == "node[1-2]"
    assert jobs["three"].account == "lab"
    assert jobs["three"].started is not None


def test_a_site_that_greets_changes_nothing() -> None:
    text = _sample("squeue-24.11.txt")

    assert parse_squeue("Welcome!\nMaintenance on Monday\n" + text) == parse_squeue(text)


@pytest.mark.parametrize("text", ["1", "12345", "7_3", "7_[1-4%2]", "7+1"])
def test_job_ids_that_slurm_takes(text: str) -> None:
    assert parse_job_id(text) == text


@pytest.mark.parametrize("text", ["", "x", "-1", "1;rm", "1,2", "--all", "1 2", "99999999999999", "1\n", "１"])
def test_what_is_no_job_id_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="job id"):
        parse_job_id(text)


@given(st.text(alphabet=st.characters() | st.sampled_from("\x1e\x1f\n|7:")))
def test_no_answer_makes_the_readers_fail(text: str) -> None:
    parse_squeue(text)
    parse_sacct(text)


@given(st.text(alphabet=st.characters(exclude_characters="\x1e", exclude_categories=["Cs"])))
def test_a_name_stays_a_name(name: str) -> None:
    columns = ask_controller().argv[-1].count(",") + 1
    record = "\x1f".join(["12", "12", "RUNNING", *["(null)"] * (columns - 4), name]) + "\x1e\n"

    jobs = parse_squeue(record * 2)

    assert [job.name for job in jobs] == [name, name]


def test_the_fields_that_are_asked_for_are_those_of_squeue_and_sacct() -> None:
    """squeue leaves a name that it does not know empty: the reason of a job that waits was None for ever."""
    squeue = {field.partition(":")[0] for field in ask_controller().argv[-1].removeprefix("--Format=").split(",")}
    sacct = " ".join(ask_accounting(["1"]).argv)

    assert {"JobArrayID", "State", "Reason", "StartTime", "NodeList", "StdOut", "Comment"} <= squeue
    assert ",Reason," in sacct


def test_all_jobs_are_asked_for_in_one_request() -> None:
    assert "--jobs=1,2_3" in ask_controller(["1", "2_3"]).argv
    assert "--jobs=1,2_3" in ask_accounting(["1", "2_3"]).argv
    assert "--me" in ask_controller().argv
