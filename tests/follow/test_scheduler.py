"""Guards how Slurm is asked: once for all jobs, once more where accounting must help, never worse for its silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pytest

from muster.errors import CommandFailed, MachineLacks, NoSlurm, SchedulerSilent
from muster.follow.heard import Accounting
from muster.follow.scheduler import Scheduler, pauses
from muster.runner import ProgramResult
from muster.slurm.jobs import ask_accounting, ask_controller
from muster.slurm.states import Phase

# What the clients of 22.05 say.
_SILENT = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
_UNKNOWN = "slurm_load_jobs error: Invalid job id specified"
_NO_ACCOUNTS = "Slurm accounting storage is disabled"

_QUEUE_COLUMNS = ask_controller().argv[-1].count(",") + 1
_ACCOUNT_COLUMNS = ask_accounting(["1"]).argv[-1].count(",") + 1


@dataclass
class Slurm:
    """Answers from what it was given, and counts the requests."""

    answers: Mapping[str, tuple[int, str, str] | Exception]
    asked: list[list[str]] = field(default_factory=list)
    environments: list[Mapping[str, str]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **_: Any) -> ProgramResult:
        self.asked.append(list(argv))
        self.environments.append(env or {})
        answer = self.answers[argv[0]]
        if isinstance(answer, Exception):
            raise answer
        return ProgramResult(tuple(argv), *answer)


def _queued(*jobs: tuple[str, str, str]) -> str:
    rows = ("\x1f".join([job, job, state, *[""] * (_QUEUE_COLUMNS - 4), name]) for job, state, name in jobs)
    return "\x1f".join(["JOBID"] * _QUEUE_COLUMNS) + "\x1e\n" + "".join(f"{row}\x1e\n" for row in rows)


def _accounted(job: str, state: str) -> str:
    heading = "\x1f".join(["JobIDRaw"] * _ACCOUNT_COLUMNS)
    return f"{heading}\n" + "\x1f".join([job, job, state, *[""] * (_ACCOUNT_COLUMNS - 3)]) + "\n"


def test_a_thousand_jobs_are_one_request() -> None:
    slurm = Slurm({"squeue": (0, _queued(*((str(number), "PENDING", "x") for number in range(1, 1001))), "")})

    answer = Scheduler({}, slurm).mine()

    assert len(answer.jobs) == 1000
    assert len(slurm.asked) == 1


def test_accounting_is_asked_only_for_what_the_controller_does_not_know() -> None:
    slurm = Slurm({"squeue": (0, _queued(("1", "RUNNING", "x")), ""), "sacct": (0, _accounted("2", "TIMEOUT"), "")})

    answer = Scheduler({}, slurm).jobs(["1", "2", "3"])

    assert [argv[0] for argv in slurm.asked] == ["squeue", "sacct"]
    assert "--jobs=2,3" in slurm.asked[1]
    assert [job.state.name for job in answer.jobs] == ["RUNNING", "TIMEOUT"]
    assert answer.missing == ("3",)


def test_without_accounting_a_forgotten_job_is_missing() -> None:
    slurm = Slurm({"squeue": (1, "", _UNKNOWN), "sacct": (1, "", _NO_ACCOUNTS)})

    answer = Scheduler({}, slurm).jobs(["5"])

    assert (answer.missing, answer.silent, answer.accounting) == (("5",), False, Accounting.OFF)


@pytest.mark.parametrize("silence", [(1, "", _SILENT), SchedulerSilent("squeue did not answer within 30 s")])
def test_accounting_speaks_for_a_silent_controller(silence: tuple[int, str, str] | Exception) -> None:
    slurm = Slurm({"squeue": silence, "sacct": (0, _accounted("5", "COMPLETED"), "")})

    answer = Scheduler({}, slurm).jobs(["5"])

    assert answer.silent
    assert answer.of("5")[0].state.phase is Phase.ENDED_WELL


def test_a_state_invented_last_month_is_an_answer() -> None:
    slurm = Slurm({"squeue": (0, _queued(("5", "TELEPORTING", "x")), "")})

    (job,) = Scheduler({}, slurm).jobs(["5"]).of("5")

    assert (job.state.name, job.state.phase) == ("TELEPORTING", Phase.UNKNOWN)


def test_cancelling_says_what_was_refused_and_forgives_what_is_over() -> None:
    over = "scancel: error: Kill job error on job id 5: Job/step already completing or completed"
    Scheduler({}, Slurm({"scancel": (1, "", over)})).cancel(["5"])

    denied = "scancel: error: Kill job error on job id 6: Access/permission denied"
    with pytest.raises(CommandFailed, match="permission denied"):
        Scheduler({}, Slurm({"scancel": (1, "", denied)})).cancel(["6"])

    silent = "scancel: error: Kill job error on job id 6: Socket timed out on send/recv operation"
    with pytest.raises(SchedulerSilent):
        Scheduler({}, Slurm({"scancel": (1, "", silent)})).cancel(["6"])


def test_the_users_own_variables_do_not_bend_the_question() -> None:
    slurm = Slurm({"squeue": (0, _queued(), "")})

    Scheduler({"SLURM_TIME_FORMAT": "relative", "SLURM_JOB_ID": "1", "SQUEUE_FORMAT": "%i", "HOME": "/h"}, slurm).mine()

    assert slurm.environments == [{"SLURM_TIME_FORMAT": "%s", "HOME": "/h"}]


def test_the_controller_is_asked_ever_more_seldom() -> None:
    waits = list(islice(pauses(2.0, 30.0), 12))

    assert waits[0] == 2.0
    assert waits == sorted(waits)
    assert waits[-1] == 30.0


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (MachineLacks("squeue", "not on PATH", hint="x"), "there is no Slurm here"),
        ((1, "", "squeue: fatal: Could not establish a configuration source"), "no cluster is set up"),
    ],
)
def test_where_there_is_no_slurm_every_question_says_so(
    answer: tuple[int, str, str] | Exception, sentence: str
) -> None:
    nobody = Scheduler({}, Slurm(dict.fromkeys(("squeue", "sacct", "sinfo", "scancel"), answer)))
    for ask in (nobody.mine, lambda: nobody.jobs(["7"]), lambda: nobody.cancel(["7"]), nobody.partitions):
        with pytest.raises(NoSlurm, match=sentence) as refused:
            ask()
        assert "muster run --here" in (refused.value.hint or "")


def test_the_memory_of_the_tasks_is_what_accounting_counted() -> None:
    said = "7|||4G\n7.batch|20000K|0|\n7.0|3905492K|3|\n"
    peak = Scheduler({}, Slurm({"sacct": (0, said, "")})).peak_memory("7")
    assert peak is not None
    assert (peak.task_mib, peak.task, peak.listed) == (3814, "3", "4G")
    peak = Scheduler({}, Slurm({"sacct": (0, "7|||32G\n7.batch|29264K|0|\n7.0|10820K|1|\n", "")})).peak_memory("7")
    assert peak is not None
    assert peak.task is None, "the batch script was shown as rank 0"
    assert Scheduler({}, Slurm({"sacct": (1, "", _NO_ACCOUNTS)})).peak_memory("7") is None
    assert Scheduler({}, Slurm({"sacct": (0, "7|||4G\n7.0|0|0|\n", "")})).peak_memory("7") is None


@pytest.mark.parametrize(
    "stdout", ["", "Welcome!\n", _queued(("1", "RUNNING", "x"))[:-20]], ids=["empty", "greeting", "cut"]
)
def test_an_answer_that_is_none_is_not_taken_for_no_job(stdout: str) -> None:
    """squeue prints its heading also where there is no job."""
    slurm = Slurm({"squeue": (0, stdout, ""), "sacct": (0, _accounted("5", "FAILED"), "")})

    with pytest.raises(SchedulerSilent, match="nothing is known"):
        Scheduler({}, slurm).mine()
    answer = Scheduler({}, slurm).jobs(["5", "6"])

    assert (answer.silent, answer.missing) == (True, ("6",))


@pytest.mark.parametrize(
    ("said", "accounting", "is_final"),
    [
        ((0, _accounted("5", "FAILED"), ""), Accounting.ANSWERED, True),
        ((1, "", _NO_ACCOUNTS), Accounting.OFF, True),
        (MachineLacks("sacct", "not there", "install it"), Accounting.NO_CLIENT, True),
        (SchedulerSilent("sacct did not answer within 30 s"), Accounting.SILENT, False),
        ((1, "", "sacct: error: Problem talking to the database: Connection refused"), Accounting.SILENT, False),
        ((0, "", ""), Accounting.SILENT, False),
        ((0, _accounted("6", "FAILED")[:-5], ""), Accounting.SILENT, False),
        ((1, "", 'sacct: error: Invalid field requested: "Reason"'), Accounting.SILENT, False),
    ],
    ids=["answers", "off", "no sacct", "late", "down", "empty", "cut", "old"],
)
def test_what_came_of_asking_accounting_is_a_value(said: Any, accounting: Accounting, *, is_final: bool) -> None:
    slurm = Slurm({"squeue": (1, "", _UNKNOWN), "sacct": said})

    answer = Scheduler({}, slurm).jobs(["6"])

    assert (answer.missing, answer.silent) == (("6",), False)
    assert (answer.accounting, answer.heard.is_final, answer.heard.phase) == (accounting, is_final, Phase.ENDED)


def test_a_job_that_accounting_alone_believes_to_run_is_over() -> None:
    """Accounting that was away when a job ended keeps it as RUNNING; the controller forgets no job that lives."""
    states = {}
    for state in ("RUNNING", "TELEPORTING", "FAILED"):
        slurm = Slurm({"squeue": (1, "", _UNKNOWN), "sacct": (0, _accounted("5", state), "")})
        (job,) = Scheduler({}, slurm).jobs(["5"]).jobs
        states[state] = (job.state.name, job.state.phase)

    assert states == {
        "RUNNING": ("UNKNOWN", Phase.ENDED),
        "TELEPORTING": ("TELEPORTING", Phase.ENDED),
        "FAILED": ("FAILED", Phase.ENDED_BADLY),
    }


def test_what_accounting_says_of_a_job_that_may_have_ended_since_says_so() -> None:
    slurm = Slurm({"squeue": (1, "", _SILENT), "sacct": (0, _accounted("5", "RUNNING"), "")})

    (job,) = Scheduler({}, slurm).jobs(["5"]).jobs

    assert (job.state.name, job.state.phase) == ("RUNNING", Phase.RUNNING)
    assert job.state.sentence.endswith("as accounting heard last; the Slurm controller does not answer")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (SchedulerSilent("scancel did not answer within 30 s"), "whether the jobs 5, 6 are cancelled is not known"),
        ((1, "", "scancel: error: Unable to contact slurm controller"), "whether the jobs 5, 6 are cancelled is not"),
        ((1, "", ""), "scancel ended with status 1"),
        ((127, "", "sh: scancel.real: not found"), "scancel ended with status 127"),
    ],
    ids=["late", "silent", "no word", "another word"],
)
def test_a_cancel_whose_answer_is_lost_is_neither_done_nor_undone(said: Any, complaint: str) -> None:
    with pytest.raises((SchedulerSilent, CommandFailed), match=complaint):
        Scheduler({}, Slurm({"scancel": said})).cancel(["5", "6"])
