"""Guards that what squeue and sacct say becomes the same jobs on every version; nothing they say is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import RequestError
from muster.slurm.jobs import (
    SlurmJob,
    ask_accounting,
    ask_controller,
    parse_job_id,
    parse_sacct,
    parse_squeue,
)
from muster.slurm.silence import is_silent
from muster.slurm.states import Phase

# What squeue of 22.05, 24.11 and 26.05 prints above its rows, with no job too.
HEADING = (
    "\x1f".join(
        (
            *("JOBID", "JOBID", "STATE", "REASON", "EXIT_CODE", "BATCH_FLAG", "USER", "PARTITION", "ACCOUNT", "QOS"),
            *("NODES", "CPUS", "TIME_LIMIT", "SUBMIT_TIME", "START_TIME", "END_TIME", "NODELIST", "DEPENDENCY"),
            *("STDOUT", "COMMENT", "NAME"),
        )
    )
    + "\x1e\n"
)
SAMPLES = Path(__file__).resolve().parents[1] / "samples"


def _jobs(name: str) -> tuple[SlurmJob, ...]:
    jobs = (parse_sacct if name.startswith("sacct") else parse_squeue)(_sample(name))
    assert jobs is not None
    return jobs


def _sample(name: str) -> str:
    return (SAMPLES / name).read_bytes().decode()


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_squeue_of_each_version_gives_the_same_jobs(version: str) -> None:
    jobs = {job.name: job for job in _jobs(f"squeue-{version}.txt")}

    failed = jobs['evil|"name" $(x) `y` and more than twenty characters']
    assert (failed.state.name, failed.exit_code, failed.signal, failed.status) == ("FAILED", 7, 0, 7)
    assert failed.is_ours
    killed = jobs["new\nline"]
    assert (killed.state.name, killed.signal, killed.status) == ("FAILED", 9, 137)
    assert jobs["sep\x1fx"].state.name == "COMPLETED"
    waiting = next(job for job in _jobs(f"squeue-{version}.txt") if job.shown_id.endswith("_[2-3%1]"))
    assert waiting.state.phase is Phase.WAITING
    assert waiting.reason.is_known
    assert waiting.started is None
    assert waiting.time_limit_s == 600
    assert all(job.submitted and job.submitted > 1_700_000_000 for job in jobs.values())


def test_sacct_gives_jobs_whose_names_hold_line_breaks_and_separators() -> None:
    jobs = {job.name: job for job in _jobs("sacct-22.05.txt")}

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

    jobs = parse_squeue(HEADING + record * 2)

    assert jobs is not None
    assert [job.name for job in jobs] == [name, name]


def test_the_parts_of_a_heterogeneous_job_are_one_job() -> None:
    names = [word.partition(":")[0] for word in ask_controller().argv[-1].removeprefix("--Format=").split(",")]

    def row(**values: str) -> str:
        return "\x1f".join(values.get(name, "(null)") for name in names) + "\x1e\n"

    second = row(
        JobID="8", JobArrayID="7+1", State="PENDING", NumNodes="2", NodeList="b[1-2]", Partition="cpu", Reason="None"
    )
    first = row(
        JobID="7", JobArrayID="7+0", State="PENDING", NumNodes="1", NodeList="a", Partition="gpu", Reason="Resources"
    )
    year = "365-00:00:00"  # of a job without a limit that backfill started
    other = row(JobID="9", JobArrayID="9", State="RUNNING", NumNodes="3", NodeList="c", TimeLimit=year)
    long = row(JobID="10", JobArrayID="10", State="RUNNING", NumNodes="1", NodeList="d", TimeLimit=f"1{year}")
    whole, alone, ten = parse_squeue(HEADING + second + first + other + long) or ()

    assert (whole.id, whole.shown_id, whole.nodes, whole.node_list) == ("7", "7", 3, "a,b[1-2]")
    assert (whole.partition, whole.reason.code) == ("gpu,cpu", "Resources")
    assert [part.id for part in whole.parts] == ["7", "8"]
    assert (alone.time_limit_s, ten.time_limit_s) == (None, 1365 * 86400)
    assert (whole.nodes_of_parts, alone.nodes_of_parts) == ((1, 2), (3,))
    (part,) = parse_squeue(HEADING + second) or ()
    assert (part.id, part.shown_id) == ("8", "7+1"), "a part that was asked for alone stays one"


@pytest.mark.parametrize(
    ("reasons", "starts", "reason", "start"),
    [
        (("Resources", "AssocGrpJobsLimit"), ("1700000000", "N/A"), "AssocGrpJobsLimit", None),
        (("BadConstraints", "AssocGrpJobsLimit"), ("N/A", "N/A"), "BadConstraints", None),
        (("None", "Priority"), ("1700000000", "1700000060"), "Priority", 1700000060),
        (("Priority", "Resources"), ("1700000000", "1700000000"), "Priority", 1700000000),
    ],
)
def test_a_heterogeneous_job_waits_for_the_part_that_waits_longest(
    reasons: tuple[str, str], starts: tuple[str, str], reason: str, start: int | None
) -> None:
    names = [word.partition(":")[0] for word in ask_controller().argv[-1].removeprefix("--Format=").split(",")]
    rows = ""
    for number in range(2):
        values = {"JobID": str(7 + number), "JobArrayID": f"7+{number}", "State": "PENDING"}
        values.update(Reason=reasons[number], StartTime=starts[number])
        rows += "\x1f".join(values.get(name, "(null)") for name in names) + "\x1e\n"
    (whole,) = parse_squeue(HEADING + rows) or ()
    assert (whole.reason.code, whole.expected_start) == (reason, start)


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


def test_no_job_is_believed_where_the_heading_shows_that_squeue_answered() -> None:
    assert parse_squeue(HEADING) == ()
    assert parse_squeue(f"Welcome!\n{HEADING}") == ()
    assert parse_sacct(_sample("sacct-22.05.txt").split("\n")[0] + "\n") == ()


@pytest.mark.parametrize(
    "text", ["", "\n", "Welcome!\n", HEADING[:20], HEADING.rstrip(), HEADING.replace("NAME", "N\x1fM")]
)
def test_an_answer_without_its_heading_is_none(text: str) -> None:
    assert parse_squeue(text) is None
    assert parse_sacct(text) is None


def test_an_answer_that_was_cut_anywhere_but_between_two_rows_is_none() -> None:
    for name, parse in (("squeue-24.11.txt", parse_squeue), ("sacct-22.05.txt", parse_sacct)):
        text = _sample(name)
        all_jobs = _jobs(name)
        for end in range(len(text)):
            jobs = parse(text[:end])
            # A name may hold a line break: cut there, it is a shorter name.
            assert jobs is None or [job.id for job in jobs] == [job.id for job in all_jobs[: len(jobs)]]
            assert jobs is None or text[:end].endswith("\n"), text[max(end - 40, 0) : end]


def test_a_column_that_an_older_squeue_lacks_is_unknown_and_no_fact() -> None:
    """22.05 prints an empty title for a name that it does not know, and an error beside it."""
    lacking = HEADING.replace("BATCH_FLAG", "").replace("EXIT_CODE", "")
    row = "\x1f".join(["12", "12", "FAILED", "None", "", "", *[""] * 14, "train"]) + "\x1e\n"

    (job,) = parse_squeue(lacking + row) or ()

    assert (job.is_batch, job.exit_code, job.signal, job.nodes) == (None, None, None, None)


@pytest.mark.parametrize(
    "said",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Zero Bytes were transmitted or received",
        "scancel: error: Socket timed out on send/recv operation",
        "slurm_load_jobs error: Slurm backup controller in standby mode",
        "sacct: error: slurm_persist_conn_open_without_init: failed to open: Connection refused",
        "squeue: error: slurm_receive_msg: Message receive failure",
    ],
)
def test_what_slurms_clients_say_of_a_silent_daemon(said: str) -> None:
    assert is_silent(said)
    assert not is_silent("slurm_load_jobs error: Invalid job id specified")
