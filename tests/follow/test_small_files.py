"""What the small files of a run directory say, line by line: a line that was cut, or written by hand, says nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from launch.plans import plan
from muster.act.record import Run
from muster.errors import RequestError
from muster.follow import watch
from muster.follow.attempt_list import Attempt, AttemptEnd, EndCause, GoodEnd, read_attempts, read_ends, read_good_ends
from muster.follow.attempts import attempts_over, ends_of_earlier, own_word_of_end
from muster.follow.cancel import cancel_cases
from muster.follow.cases import JobCase
from muster.follow.find_output import find_output
from muster.follow.first_failure import first_in
from muster.follow.known_causes import read_log
from muster.follow.links import ChainLink, links_in
from muster.follow.row import row_of_task
from muster.follow.save import SavingJob, saving_of, wait_for_save
from muster.follow.saves import Told, read_saves
from muster.follow.scheduler import Scheduler
from muster.follow.support import _is_plain, torch_of
from muster.follow.watch import JobOutput, LogFile, last_lines, lines_at_end
from muster.render.document import plan_as_json
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of

_END = "2\t100\t160\t7\t1\tnode2\tend\tValueError\t\trank\tValueError: x"
_SAVE = "1\t100\tlimit\t8\t8\tUSR1\tall ranks saved"


def _end(**changed: Any) -> AttemptEnd:
    fields: dict[str, Any] = {
        "number": 2,
        "began": 100,
        "ended": 160,
        "status": 7,
        "rank": 1,
        "host": "node2",
        "decision": "end",
        "cause": "ValueError",
        "done": "",
        "kind": EndCause.RANK,
        "error_line": "ValueError: x",
    }
    return AttemptEnd(**{**fields, **changed})


def _cut(line: str, place: int, word: str) -> str:
    fields = line.split("\t")
    return "\t".join([*fields[:place], word, *fields[place + 1 :]])


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        (_END, [_end()]),
        (_END.rpartition("\t")[0], []),
        (f"{_END}\tmore", []),
        *((_cut(_END, place, "x"), []) for place in range(4)),
        (_cut(_END, 4, ""), [_end(rank=None)]),
        (_cut(_END, 5, ""), [_end(host=None)]),
        (_cut(_END, 9, "moon"), [_end(kind=None)]),
    ],
)
def test_an_end_is_a_whole_line(tmp_path: Path, line: str, ends: list[AttemptEnd]) -> None:
    (tmp_path / "ends").write_text(f"{line}\n")
    assert read_ends(tmp_path) == ends


@pytest.mark.parametrize(
    ("line", "saves"),
    [
        (_SAVE, [Told(1, 100, "limit", 8, 8, "USR1", "all ranks saved")]),
        (_SAVE.rpartition("\t")[0], []),
        (f"{_SAVE}\tmore", []),
        *((_cut(_SAVE, place, "x"), []) for place in (0, 1, 3, 4)),
    ],
)
def test_a_save_is_a_whole_line(tmp_path: Path, line: str, saves: list[Told]) -> None:
    assert read_saves(tmp_path) == []
    (tmp_path / "saves").write_text(f"{line}\n")
    assert read_saves(tmp_path) == saves


def test_the_last_job_of_each_number_is_a_link_and_a_line_without_number_or_job_is_none(tmp_path: Path) -> None:
    (tmp_path / "links").write_text("2\t57\t1\nx\t58\t1\n3\t\t1\n3\n1\t55\n1\t56\n")
    assert links_in(tmp_path) == (ChainLink(1, "56"), ChainLink(2, "57"))


def test_attempts_and_good_ends_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    (tmp_path / "attempts").write_text("1\nx\t2\n2\t200\tn[1-2]\tn3 n4\t58\tmore\n")
    (tmp_path / "well").write_text("x\tn1\n300\tn[1-2]\n")
    assert read_attempts(tmp_path) == [Attempt(1, "", (), None), Attempt(2, "n[1-2]", ("n3", "n4"), 200, "58")]
    assert read_good_ends(tmp_path) == [GoodEnd(0, "n1"), GoodEnd(300, "n[1-2]")]


def test_an_end_in_json_has_no_empty_words() -> None:
    told = _end(cause="").as_json()
    assert (told["cause"], told["done"]) == (None, None)
    assert _end(done="step 5").as_json()["done"] == "step 5"


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ("", ["its script wrote down that all ranks on n[1-2] ended well"]),
        (_cut(_END, 6, "done"), ["its script wrote down that all ranks on n[1-2] ended well"]),
        (_END, []),
    ],
)
def test_a_script_s_own_word_of_a_good_end_counts_if_its_last_end_was_good(
    tmp_path: Path, ends: str, sentence: list[str]
) -> None:
    (tmp_path / "ends").write_text(ends)
    assert list(own_word_of_end(Run("7", tmp_path, "train"), None)) == []
    (tmp_path / "well").write_text("300\tn[1-2]\n")
    assert list(own_word_of_end(Run("7", tmp_path, "train"), None)) == sentence


def test_a_task_is_digits_of_ascii_and_its_row_is_a_table(tmp_path: Path) -> None:
    run = Run("7", tmp_path, "train")
    for task, text in (("3", '{"lr": 0.1}'), ("4", "[1]"), ("5", "{"), ("²", '{"lr": 1}')):
        (tmp_path / f"task-{task}").mkdir()
        (tmp_path / f"task-{task}/row.json").write_text(text)
    assert [row_of_task(run, task) for task in ("3", "4", "5", "6", "²", "")] == [{"lr": "0.1"}, *[None] * 5]


def test_a_link_in_a_run_s_logs_is_no_file_of_a_report_and_one_elsewhere_is(tmp_path: Path) -> None:
    run = Run("7", tmp_path / "run", "train")
    run.directory.mkdir()
    file = tmp_path / "file"
    file.write_text("x")
    for link in (tmp_path / "link", run.directory / "link"):
        link.symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    assert _is_plain(file, None)
    assert _is_plain(tmp_path / "link", None)
    assert _is_plain(run.directory / "link", None)
    assert _is_plain(tmp_path / "link", run)
    assert not _is_plain(run.directory / "link", run)
    assert not _is_plain(tmp_path / "pipe", run)
    assert not _is_plain(tmp_path / "gone", run)


@pytest.mark.parametrize("venv", ["", 3, None, "missing"])
def test_no_torch_is_named_without_the_record_of_an_environment(
    tmp_path: Path, venv: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "muster.json").write_text('{"torch": "2.9"}')
    (tmp_path / "record.json").write_text(json.dumps({"environment": {"VIRTUAL_ENV": venv}}))
    assert torch_of(Run("7", tmp_path, "train")) == {}
    assert torch_of(None) == {}


@pytest.mark.parametrize("more", [0, 1])
def test_the_end_of_a_file_that_is_just_as_long_as_what_is_read_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    text = b"0: one\n0: two\n"
    monkeypatch.setattr(watch, "_TAIL_BYTES", len(text) - more)
    (tmp_path / "a.log").write_bytes(text)
    with (tmp_path / "a.log").open("rb") as stream:
        lines = list(lines_at_end(LogFile(tmp_path / "a.log"), stream))
    assert lines == [b"0: one", b"0: two"][more:]


@pytest.mark.parametrize(
    ("attempt", "tail", "lines"),
    [
        (None, 999, [b"a", b"muster: attempt 2 of this job begins here", b"b"]),
        (1, 999, [b"a"]),
        (2, 999, [b"b"]),
        (3, 999, []),
        (2, 3, [b"b"]),  # the line that says so stands before what is read
        (1, 3, [b"b"]),
    ],
)
def test_of_a_file_that_holds_all_attempts_the_lines_of_one_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: int | None, tail: int, lines: list[bytes]
) -> None:
    monkeypatch.setattr(watch, "_TAIL_BYTES", tail)
    (tmp_path / "a.log").write_text("a\nmuster: attempt 2 of this job begins here\nb\n")
    with (tmp_path / "a.log").open("rb") as stream:
        assert list(lines_at_end(LogFile(tmp_path / "a.log", attempt=attempt), stream)) == lines


@pytest.mark.parametrize(
    ("output", "rank", "says"),
    [
        (JobOutput(None, ranks=2), 1, ""),
        (JobOutput(None, ranks=2), 2, "no rank 2"),
        (JobOutput(None, ranks=2), -1, "no rank -1"),
        (JobOutput(None, ranks=None), 9, ""),
        (JobOutput(None, labelled=False, ranks=2), 1, "carry no rank"),
        (JobOutput(None, labelled=False, ranks=1), 0, ""),
        (JobOutput(None, labelled=False, ranks=2, a_file_each=True), 1, ""),
    ],
)
def test_a_rank_is_asked_for_where_it_can_be_told(output: JobOutput, rank: int, says: str) -> None:
    with pytest.raises(RequestError, match=says) if says else nullcontext():
        output.check_rank(rank)


@pytest.mark.parametrize(
    ("name", "rank"), [("n1.3.log", 3), ("n1.x.log", None), (".3.log", None), ("3.log", None), ("batch.log", None)]
)
def test_the_file_of_one_rank_is_known_by_its_name(tmp_path: Path, name: str, rank: int | None) -> None:
    (tmp_path / name).write_text("x\n")
    (file,) = JobOutput(tmp_path, a_file_each=True, ranks=4).files()
    assert file.rank == rank
    assert last_lines(JobOutput(tmp_path, (tmp_path / name,), a_file_each=True), rank=None, count=1)[0].rank is None


def _planned(folder: Path, *words: str) -> Run:
    (folder / "plan.json").write_text(plan_as_json(plan("-N", "1", "-t", "10", *words, "--", "python", "t.py")))
    return Run("7", folder, "train", "lab", 1700000000, "d")


def test_one_file_of_all_attempts_is_read_from_the_last_on(tmp_path: Path) -> None:
    file = tmp_path / "all.out"
    file.write_text("a\nmuster: attempt 2 of this job begins here\nb\n")
    run = _planned(tmp_path, "-o", str(file), "--requeue")

    def text_of(attempt: int | None = None) -> Sequence[bytes]:
        output = find_output(None, run, "7", attempt)
        assert output is not None
        return [line.text for line in last_lines(output, rank=None, count=9)]

    assert text_of() == [b"a", b"muster: attempt 2 of this job begins here", b"b"]
    (tmp_path / "attempts").write_text("1\t1\tn1\n")
    assert text_of() == [b"a", b"muster: attempt 2 of this job begins here", b"b"]
    (tmp_path / "attempts").write_text("1\t1\tn1\n2\t2\tn1\n")
    assert text_of() == [b"b"]
    assert text_of(1) == [b"a"]


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("srun: error: node2: task 1: Exited with exit code 7\n", "task 1 on node2: exit status 7"),
        ("nothing\n", "it was put back into the queue"),
    ],
)
def test_an_attempt_without_an_end_of_its_own_is_told_by_its_output(tmp_path: Path, log: str, sentence: str) -> None:
    run = _planned(tmp_path, "--requeue")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/batch.log").write_text(log)
    (tmp_path / "attempts").write_text("1\t100\tn1\t\n2\t200\tn1\t\n3\t\tn2\tn1\n")
    waiting, over = (attempts_over(run, None, waits=waits) for waits in (True, False))
    assert [story["attempt"] for story in waiting] == [1, 2, 3]
    assert over == waiting[:2]
    assert [story["began"] for story in waiting] == [100, 200, None]
    assert sentence.removeprefix("task 1 ") in over[0]["cause"]
    assert over[1]["cause"] == "n1 failed"
    told = list(ends_of_earlier(run, None, waits=True))
    assert [text.partition(":")[0] for text in told] == ["fourth run", "before that", "before that"]
    (tmp_path / "attempts").write_text("1\t100\tn1\t\n")
    assert list(ends_of_earlier(run, None, waits=False)) == []
    assert len(list(ends_of_earlier(run, None, waits=True))) == 1


def test_the_first_failure_without_ranks_names_the_node_that_slurm_names() -> None:
    lost = [
        "srun: error: Node failure on node3",
        "slurmstepd: error: *** STEP 7.0 ON node3 CANCELLED DUE TO NODE FAILURE",
    ]
    failure = first_in([lost], [])
    assert failure is not None
    assert (failure.host, failure.tasks) == ("node3", ())


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (["hint: do this"], "do this"),
        (["", "hint: do this"], "do this"),
        (["hint: do this", "hint: not this"], "do this"),
        (["1: hint: of another rank"], None),
        (["see hint: not at its beginning"], None),
        ([*[""] * 99, "hint: do this"], "do this"),
        ([*[""] * 100, "hint: too far below"], None),
    ],
)
def test_the_hint_of_an_error_of_muster_is_the_first_below_it(hint: list[str], expected: str | None) -> None:
    report = read_log([f"{line}\n".encode() for line in ("hint: too early", "muster: error: no such thing", *hint)])
    assert [getattr(cause, "hint", "") or None for cause in report.causes] == [expected]


# --- to be cancelled, and to save before that ---


class _Cancels(Scheduler, frozen=True):
    """A Slurm that takes every request to cancel."""

    def cancel(self, jobs: Sequence[str], *, only: str = "") -> None:
        pass


@pytest.mark.parametrize(("asked", "links", "left"), [("7", (), []), ("7_2", (), ["passed"])])
def test_the_secrets_of_a_job_that_is_cancelled_whole_are_removed(
    tmp_path: Path, asked: str, links: tuple[str, ...], left: list[str]
) -> None:
    (tmp_path / "passed").write_text("A=b\0")
    cancel_cases([JobCase(asked, None, Run("7", tmp_path, "train")), JobCase("8", None, None)], _Cancels({}))
    assert [path.name for path in tmp_path.iterdir()] == left


def _running(folder: Path, before: str = "--save-before=2") -> JobCase:
    job = SlurmJob("7", "7", "train", state_of("RUNNING"), reason_of("None"))
    return JobCase("7", job, _planned(folder, before))


def test_ranks_can_save_where_their_job_says_so_and_runs(tmp_path: Path) -> None:
    case = _running(tmp_path)
    saving = saving_of(case)
    assert (saving.folder, saving.before_s, saving.told_before, saving.ends_before) == (tmp_path, 120, 0, 0)
    for other in (JobCase("7", None, case.run), JobCase("7", case.job, None)):
        with pytest.raises(RequestError, match="was not submitted with --save-before"):
            saving_of(other)
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(RequestError, match="was not submitted with --save-before"):
        saving_of(case)


@pytest.mark.parametrize(
    ("saves", "ends", "sentence"),
    [
        ("", f"{_END}\n", "job 7 has ended by itself"),
        (f"{_SAVE}\n", f"{_END}\n", "job 7: all ranks saved, and have ended"),
        (f"{_SAVE}\n", "", "job 7: all ranks saved, and run on after 0 s"),
        (f"{_cut(_SAVE, 4, '0')}\n", "", "warning: job 7: all ranks saved"),
        ("", "", "warning: the script of job 7 has not answered within 0 s"),
    ],
)
def test_what_came_of_a_save_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: str, ends: str, sentence: str
) -> None:
    from muster.follow import save

    monkeypatch.setattr(save, "_ANSWER_S", 0.0)
    monkeypatch.setattr(save, "_LOOK_S", 0.0)
    (tmp_path / "saves").write_text(saves)
    (tmp_path / "ends").write_text(ends)
    assert wait_for_save(SavingJob("7", "7", tmp_path, 0, 0, 0)) == sentence
