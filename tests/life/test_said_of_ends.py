"""What Slurm says of the end of a job, read from its own words: of this job, of the link before, and of the limit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from muster.life import asking
from muster.life.chain import LinkChain
from muster.life.rules import Rules
from muster.life.saves import Saves
from muster.life.written import RunFiles


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of stub programs; scontrol and sacct say what lies in a file of their name, if it is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("scontrol", "sacct"):
        (folder / name).write_text(f"#!/bin/sh\ncat {tmp_path}/{name}.errors >&2\ncat {tmp_path}/{name}.says\n")
        (folder / name).chmod(0o755)
        (tmp_path / f"{name}.errors").touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def _rules(*words: str) -> Rules:
    return Rules(["file=job.sh", *words], {"SLURM_JOB_ID": "7"})


_LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***"
_PREEMPTED = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***"
_NODE = (
    "slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***"
)
_BY_HAND = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***"


@pytest.mark.parametrize(
    ("lines", "reason", "is_cancelled"),
    [
        ([], "", False),
        (["loss 0.1"], "", False),
        ([_LIMIT], "the time limit was reached", False),
        ([_PREEMPTED], "it was preempted", False),
        ([_NODE], "a node of the job failed", False),
        ([_BY_HAND], "", True),
        ([_LIMIT, _PREEMPTED, "bye"], "it was preempted", False),
        ([_PREEMPTED, _LIMIT], "the time limit was reached", False),
        ([_LIMIT, _BY_HAND], "", True),
        ([_LIMIT.replace("JOB 7", "JOB 77")], "", False),
        ([_LIMIT.replace("JOB 7", "STEP 7.0")], "", False),
    ],
)
def test_the_reason_of_slurm_stands_in_the_jobs_own_output(
    tmp_path: Path, lines: list[str], reason: str, is_cancelled: bool
) -> None:
    output = tmp_path / "slurm-7.out"
    output.write_text("".join(f"{line}\n" for line in lines))
    chain = LinkChain(_rules(), RunFiles(str(tmp_path)), {"SLURM_JOB_ID": "7"}, print)

    assert chain.reason_of_slurm(str(output)) == reason
    assert chain.is_cancelled(str(output)) is is_cancelled
    assert chain.reason_of_slurm(str(tmp_path / "none")) == ""


@pytest.mark.parametrize(("down", "reason"), [("n3\nn2\nn2\nn9\n", "n2, n3 failed"), ("", "a node of the job failed")])
def test_the_node_whose_failure_ended_a_job_is_named_while_slurm_calls_it_down(
    tmp_path: Path, programs: Path, down: str, reason: str
) -> None:
    (programs / "sinfo").write_text(f"#!/bin/sh\nprintf '{down}'\n")
    (programs / "sinfo").chmod(0o755)
    output = tmp_path / "slurm-7.out"
    output.write_text(_NODE + "\n")
    chain = LinkChain(_rules(), RunFiles(str(tmp_path)), {"SLURM_JOB_ID": "7"}, print)

    assert chain.reason_of_slurm(str(output), ("n1", "n2", "n3")) == reason


@pytest.mark.parametrize(
    ("is_preempted", "status", "reason", "words"),
    [
        (True, 0, "preemption", "the job was preempted"),
        (True, 143, "preemption", "the job was preempted"),
        (False, 143, "ended", "the job was told to end"),
        (False, 142, "", ""),
        (False, 0, "", ""),
    ],
)
def test_ranks_that_slurm_itself_has_told_have_a_reason(
    is_preempted: bool, status: int, reason: str, words: str
) -> None:
    saves = Saves(_rules("save=60"), RunFiles(""), print)

    assert saves.told_by_slurm(is_preempted, status) == reason
    assert saves.saved_words == words


def test_the_links_before_that_began_with_the_same_checkpoint_are_counted(tmp_path: Path) -> None:
    files = RunFiles(str(tmp_path))

    assert files.count_idle_links(1, "a") == 0
    assert files.count_idle_links(2, "a") == 1
    assert files.count_idle_links(3, "a") == 2
    assert files.count_idle_links(3, "a") == 0, "Slurm has put this link back into the queue"
    assert files.count_idle_links(4, "b") == 0
    assert files.count_idle_links(5, "a") == 1
    assert files.count_idle_links(7, "a") == 1
    assert [row[:2] for row in files.rows("progress")] == [list(row) for row in ("1a", "2a", "3a", "4b", "5a", "7a")]
    files.add("progress", 8)
    assert files.count_idle_links(9, "a") == 1


@pytest.mark.parametrize(
    ("controller", "error", "accounting", "state"),
    [
        ("JobId=6 JobState=COMPLETED Reason=None\n", "", None, "COMPLETED"),
        ("JobId=6 JobState=FAILED JobState=x\n", "", "COMPLETED\n", "FAILED"),
        ("", "slurm_load_jobs error: Invalid job id specified", "TIMEOUT\n", "TIMEOUT"),
        ("", "slurm_load_jobs error: Invalid job id specified", "CANCELLED by 0\n", "CANCELLED"),
        ("", "slurm_load_jobs error: Invalid job id specified", None, ""),
        ("", "slurm_load_jobs error: Invalid job id specified", "\n", ""),
        ("", "slurm_load_jobs error: Unable to contact slurm controller", None, None),
        ("", "slurm_load_jobs error: Unable to contact slurm controller", "\n", ""),
        ("", "slurm_load_jobs error: Unable to contact slurm controller", "TIMEOUT\n", "TIMEOUT"),
    ],
)
def test_how_the_link_before_ended_is_asked_of_the_controller_then_of_accounting(
    programs: Path, tmp_path: Path, controller: str, error: str, accounting: str | None, state: str | None
) -> None:
    assert programs
    (tmp_path / "scontrol.says").write_text(controller)
    (tmp_path / "scontrol.errors").write_text(error)
    if accounting is not None:
        (tmp_path / "sacct.says").write_text(accounting)

    assert asking.ask_old_job("6") == state


def _say_end(tmp_path: Path, end: float | None, *, preempted: bool = False) -> None:
    when = "1" if preempted else "None"
    text = "" if end is None else f"JobId=7 JobState=RUNNING EndTime={end:.0f} PreemptTime={when} NodeList=n1\n"
    (tmp_path / "scontrol.says").write_text(text)


@pytest.mark.parametrize(
    ("end", "later", "is_due"),
    [
        (-100, -100, True),  # the limit is over, as Slurm knew it and knows it
        (60, 60, True),  # 60 seconds are left, and the ranks are told 60 seconds before
        (61.5, 61.5, False),  # not yet
        (600, 600, False),
        (-100, 600, False),  # the limit was moved
        (60, None, True),  # Slurm does not answer now
    ],
)
def test_the_ranks_are_told_as_long_before_the_limit_as_was_asked(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: float, later: float | None, is_due: bool
) -> None:
    assert programs
    wall, running = 2_000_000_000.0, 1000.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: running)
    saves = Saves(_rules("save=60", "signal=USR1", "clock=yes"), RunFiles(""), print)
    answers = iter([end, later])
    monkeypatch.setattr(asking, "ask_job", lambda _: _answered(next(answers), wall))
    saves.begin()

    assert saves.is_due(0.0, running) is is_due
    assert (saves.find_time(running) is None) is is_due, "once told, the clock tells no more"


def _answered(end: float | None, wall: float) -> asking.JobWords | None:
    return None if end is None else asking.JobWords("RUNNING", "n1", wall + end, preempted=False)


@pytest.mark.parametrize(
    ("end", "preempted", "cancelled", "reason"),
    [
        (None, False, False, "asked"),
        (None, False, True, "cancel"),
        (100_000, True, False, "preemption"),
        (100_000, True, True, "cancel"),
        (100_000, False, False, "asked"),
        (30, False, False, "limit"),
        (30, True, False, "preemption"),
        (0, False, False, "asked"),
    ],
)
def test_why_the_ranks_are_to_save(
    programs: Path, tmp_path: Path, end: int | None, preempted: bool, cancelled: bool, reason: str
) -> None:
    assert programs
    _say_end(tmp_path, end and time.time() + end, preempted=preempted)
    if end == 0:
        (tmp_path / "scontrol.says").write_text("JobId=7 JobState=RUNNING EndTime=Unknown PreemptTime=None\n")
    if cancelled:
        (tmp_path / "cancel").touch()
    saves = Saves(_rules("save=60", "signal=USR1", f"run={tmp_path}"), RunFiles(""), print)

    assert saves._reason() == reason


@pytest.mark.parametrize(
    ("times", "is_preempted"),
    [
        ("StartTime=100 PreemptTime=150", True),
        ("StartTime=150 PreemptTime=150", True),  # in the second of its start, as why reads it too
        ("StartTime=200 PreemptTime=150", False),
        ("StartTime=100 PreemptTime=None", False),
        ("StartTime=Unknown PreemptTime=150", True),
        ("StartTime=Unknown PreemptTime=None", False),
    ],
)
def test_a_preemption_is_one_of_this_run(programs: Path, tmp_path: Path, times: str, is_preempted: bool) -> None:
    assert programs.is_dir()
    (tmp_path / "scontrol.says").write_text(f"JobId=7 JobState=RUNNING {times} NodeList=n1\n")

    answer = asking.ask_job("7")
    assert answer is not None
    assert answer.preempted is is_preempted
