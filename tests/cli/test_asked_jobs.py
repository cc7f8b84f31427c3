"""Guards what the verbs about jobs share: the same keys whatever is known, and words harmless on a terminal."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from muster.act.record import Run, register
from muster.cli.asked_jobs import cases, ids_or_newest, job_ids, running_case, state
from muster.cli.command_line import read_command
from muster.cli.job_json import JSON_KEYS, as_json
from muster.cli.job_words import ended_how, plain, when
from muster.cli.logs import COMMAND, _last
from muster.cli.status import _details, headline
from muster.cli.why import _shortened, _waiting, _warnings
from muster.errors import MusterError, RequestError, SchedulerSilent, UnknownName
from muster.follow.cases import JobCase
from muster.follow.packs import job_of_row, jobs_of_rows
from muster.follow.scheduler import Answer
from muster.follow.watch import JobOutput, OutputLine
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of


def job(state: str, **more: object) -> SlurmJob:
    """A job in this state."""
    return SlurmJob("7", "7", "train", state_of(state), reason_of("None"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "case",
    [
        JobCase("7", job("RUNNING"), None),
        JobCase("7", job("PENDING"), Run("7", Path("/run"), "train")),
        JobCase("7", job("INVENTED"), None),
        JobCase("7", None, Run("7", Path("/run"), "train")),
    ],
)
def test_every_job_has_the_same_keys_in_json(case: JobCase) -> None:
    assert tuple(as_json(case)) == JSON_KEYS


def task(number: int, state: str) -> JobCase:
    """Return one task of the array 7."""
    return JobCase("7", SlurmJob(str(7 + number), f"7_{number}", "train", state_of(state), reason_of("None")), None)


@pytest.mark.parametrize(
    ("states", "answer"),
    [
        (("COMPLETED", "RUNNING", "PENDING"), "7_2"),
        (("RUNNING", "RUNNING", "COMPLETED"), "7 is an array, and 2 of its jobs run / name one: muster top 7_1"),
        (("COMPLETED", "PENDING"), "job 7 does not run yet: PENDING / muster why 7"),
        (("COMPLETED", "FAILED"), "job 7 has ended / muster why 7"),
    ],
)
def test_of_an_array_the_one_task_that_runs_is_meant(states: tuple[str, ...], answer: str) -> None:
    tasks = [task(number, state) for number, state in enumerate(states, start=1)]
    if answer.startswith("7_"):
        assert running_case("7", tasks, "top").shown_id == answer
        return
    with pytest.raises(MusterError) as refused:
        running_case("7", tasks, "top")
    assert f"{refused.value.message} / {refused.value.hint}" == answer


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (job("FAILED", exit_code=7, signal=0, node_list="node1"), "exit status 7"),
        (job("FAILED", exit_code=0, signal=9, node_list="node1"), "ended by SIGKILL"),
        (job("FAILED", exit_code=0, signal=1), ""),
        (job("OUT_OF_MEMORY", exit_code=0, signal=125, node_list="node1"), ""),
        (job("FAILED", exit_code=0, signal=53, node_list="node1"), ""),
        (job("OUT_OF_MEMORY", exit_code=0, signal=9, node_list="node1"), "ended by SIGKILL"),
        (job("COMPLETED", exit_code=0, signal=0, node_list="node1"), ""),
        (job("RUNNING", exit_code=1, signal=0, node_list="node1"), ""),
    ],
)
def test_an_ending_is_told_of_a_job_that_ran_and_is_over(ended: SlurmJob, words: str) -> None:
    assert ended_how(ended) == words


@pytest.mark.parametrize(
    ("code", "start", "words"),
    [
        ("Resources", 1_700_000_000, "expected to start 20"),
        ("Resources", None, "Slurm has not yet estimated when it starts"),
        ("DependencyNeverSatisfied", None, "as it stands, it does not start"),
        ("InventedLastMonth", None, "Slurm has not yet estimated when it starts"),
    ],
)
def test_why_tells_when_a_job_starts_or_that_it_does_not(code: str, start: int | None, words: str) -> None:
    waiting = SlurmJob("7", "7", "train", state_of("PENDING"), reason_of(code), started=start)
    assert any(words in line for line in _waiting(waiting))


@pytest.mark.parametrize(
    ("seconds_ago", "words"), [(60, "00:09:00 left"), (660, "which is over")], ids=["in time", "over"]
)
def test_status_tells_what_is_left_of_a_running_jobs_time(seconds_ago: int, words: str) -> None:
    running = job("RUNNING", started=int(time.time()) - seconds_ago, time_limit_s=600, node_list="node1")
    told = dict(_details(running))
    assert told["limit"].startswith("00:10:00, ")
    assert told["limit"].endswith(words) or "00:08:59 left" in told["limit"]
    ended = job("FAILED", started=1_700_000_000, ended=1_700_000_090, node_list="node1")
    assert dict(_details(ended))["ended"].endswith(", after 00:01:30")
    ended_before_it_began = job("CANCELLED", started=1_700_000_090, ended=1_700_000_000, node_list="node1")
    assert "after" not in dict(_details(ended_before_it_began))["ended"]


@pytest.mark.parametrize(
    ("typed", "shown"),
    [("two\nlines", "two\\nlines"), ("\x1b[31mred", "\\x1b[31mred"), ("ünï ☃", "ünï ☃"), ("a\u202eb", "a\\u202eb")],
)
def test_a_hostile_name_is_shown_escaped(typed: str, shown: str) -> None:
    assert plain(typed) == shown


def test_a_job_without_a_name_has_no_empty_brackets() -> None:
    assert headline(JobCase("7", None, Run("7", Path("/run"), ""))).startswith("job 7: ")
    assert headline(JobCase("7", replace(job("RUNNING"), name=""), None)).startswith("job 7 is RUNNING")
    assert headline(JobCase("7", job("RUNNING"), None)).startswith("job 7 (train) is RUNNING")


def test_a_job_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(RequestError, match="Slurm knows no job 99"):
        cases(["99"], Answer((), ("99",)))


def test_a_silent_controller_is_not_taken_for_an_unknown_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SchedulerSilent):
        cases(["99"], Answer((), ("99",), silent=True))


def test_options_and_ids_stand_in_any_order() -> None:
    words = read_command(COMMAND, ["--rank=3", "7", "-f"])
    assert (job_ids(words), words.follow, words.rank, words.json) == (("7",), True, 3, False)


def test_an_id_that_jobs_shows_of_what_waits_means_its_tasks() -> None:
    for word, meant in (
        ("57_[1-2%1]", ("57_1", "57_2")),
        ("57_[1,5-9:4]", ("57_1", "57_5", "57_9")),
        ("57_3", ("57_3",)),
    ):
        assert job_ids(read_command(COMMAND, [word])) == meant
    for word in ("57_[%]", "57_[1-99999]", "57_[3-1]"):
        with pytest.raises(RequestError, match="does not name 1 to 10000 tasks"):
            job_ids(read_command(COMMAND, [word]))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["7", "8"], "takes at most 1 of JOB, but '8' is one too many"),
        (["--rnak", "3", "7"], "there is no option --rnak"),
        (["7", "--rank"], "--rank needs a value"),
        (["train"], "'train' is not a job id"),
        (["7;rm"], "not a job id"),
        (["-7"], "no option"),
        (["٧"], "not a job id"),
    ],
)
def test_what_cannot_be_understood_is_refused(words: list[str], complaint: str) -> None:
    with pytest.raises((RequestError, UnknownName), match=complaint):
        job_ids(read_command(COMMAND, words))


def test_why_shortens_a_line_that_nobody_reads_whole() -> None:
    line = "a" * 400 + "b" * 3_000_000 + "c" * 400

    assert _shortened(line) == "a" * 400 + " … 3,000,000 characters … " + "c" * 400
    assert _shortened("short") == "short"


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_why_takes_logs_of_few_lines(tmp_path: Path, count: int) -> None:
    said = ["muster: warning: the disk is full", "", "hint: make room"]
    (tmp_path / "batch.log").write_text("".join(f"{line}\n" for line in said[:count]))

    found = _warnings(JobOutput(tmp_path))

    assert found == ["warning: the disk is full", "  hint: make room"][: 0 if count == 0 else 1 + (count == 3)]


def test_without_an_id_the_newest_job_is_meant_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("muster.cli.asked_jobs.cluster", lambda: "here")
    for number, name in ((8, "old"), (12, "new")):
        register(tmp_path / "muster", Run(str(number), tmp_path / "run", name, "here", submitted=number))
        os.utime(tmp_path / f"muster/jobs/here/{number}.json", (number, number))

    assert ids_or_newest(read_command(COMMAND, [])) == ("12",)
    assert capsys.readouterr().err == f"muster: your newest job of Muster is 12 (new) of {when(12)}\n"
    assert ids_or_newest(read_command(COMMAND, ["8"])) == ("8",)
    assert not capsys.readouterr().err


def test_tail_shows_the_last_lines_of_the_rank_that_is_meant() -> None:
    lines = [OutputLine(number % 2, str(number).encode(), labelled=True) for number in range(6)]

    assert [line.text for line in _last(lines, None, 2)] == [b"4", b"5"]
    assert [line.text for line in _last(lines, 0, 2)] == [b"2", b"4"]
    assert list(_last(lines, None, None)) == lines


def test_a_row_that_shares_its_job_has_its_own_end(tmp_path: Path) -> None:
    """57_3 holds the rows 3 and 4: of them one has ended, and one has not."""
    run = Run("57", tmp_path, "small", rows_per_job=2)
    for row in range(1, 6):
        (tmp_path / f"task-{row}").mkdir()
    (tmp_path / "task-4/status").write_text("7\n")
    jobs = [msgspec.structs.replace(job("RUNNING"), id="58", shown_id="57_3")]
    jobs.append(msgspec.structs.replace(job("PENDING"), id="57", shown_id="57_[5]"))

    assert [job_of_row(f"57_{row}", run) for row in (1, 2, 3, 4)] == ["57_1", "57_1", "57_3", "57_3"]
    assert job_of_row("57", run) == "57"
    rows = {each.shown_id: (each.state.name, each.status) for each in jobs_of_rows("57", run, jobs)}
    assert rows["57_3"] == ("RUNNING", None)
    assert rows["57_4"] == ("FAILED", 7)
    assert rows.keys() == {"57_3", "57_4", "57_5"}, "Slurm has forgotten the job of the rows 1 and 2"
    assert rows["57_5"] == ("PENDING", None)
    assert [each.shown_id for each in jobs_of_rows("57_4", run, jobs)] == ["57_4"]


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """An array of three tasks that Slurm has forgotten, two of which went on in other jobs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("muster.cli.asked_jobs.cluster", lambda: "here")
    run = Run("6", tmp_path / "run", "sweep", "here", links=4)
    for number, links in (("1", "1\t6_1\t0\n2\t13_1\t0\n"), ("2", "1\t6_2\t0\n"), ("3", "1\t6_3\t0\n2\t14_3\t0\n")):
        (run.directory / f"task-{number}").mkdir(parents=True)
        (run.directory / f"task-{number}" / "links").write_text(links)
    register(state(), run)
    return run


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("14_3", ["6_3"]),
        ("14", ["6_3"]),
        ("13_1", ["6_1"]),
        ("6_2", ["6_2"]),
        ("6", ["6_1", "6_2", "6_3"]),
    ],
)
def test_a_job_that_slurm_has_forgotten_is_known_by_each_of_its_ids(
    asked: str, meant: list[str], forgotten: Run
) -> None:
    found = cases([asked], Answer((), (asked,)))

    assert [case.shown_id for case in found] == meant
    assert all(case.run == forgotten for case in found)


@pytest.mark.usefixtures("forgotten")
def test_a_task_that_never_was_is_no_forgotten_one() -> None:
    with pytest.raises(RequestError, match="job 6 has no task 9") as refused:
        cases(["6_9"], Answer((), ("6_9",)))
    assert refused.value.hint == "it has 3, from 1 to 3: muster status 6 shows them"
