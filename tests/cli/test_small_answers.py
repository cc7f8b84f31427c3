"""Each small sentence of the verbs about jobs, and what it depends on."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.act.keep import Kept
from muster.act.record import Run
from muster.act.supervise import Outcome
from muster.cli import asked_jobs, cancel, clean, closing, nodes, queues, why
from muster.cli.app import _spell
from muster.cli.closing import _closed, _sentence, say_of_rank, wait_words
from muster.cli.command_line import Words
from muster.cli.help_page import screen_width
from muster.cli.job_words import words_of_waiting
from muster.cli.logs import _named_output, _output, _with_headings
from muster.cli.next_steps import _required
from muster.cli.output import _LONGEST_WORD, _widths, at_words, hanging
from muster.cli.shell import _host_of
from muster.cli.status import _left
from muster.errors import RequestError
from muster.follow.cases import JobCase
from muster.follow.watch import OutputLine
from muster.model.failure import Failure
from muster.slurm.jobs import SlurmJob
from muster.slurm.partitions import Partition
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of
from sites.profiles import bundled

_PLAN = plan("-N", "2", "-t", "10", "--", "python", "t.py")


def _job(state: str, reason: str = "None", **fields: Any) -> SlurmJob:
    return replace(SlurmJob("7", "7", "train", state_of(state), reason_of(reason)), **fields)


# --- while it waits, and at its end ---


@pytest.mark.parametrize(
    ("asked", "words", "start"),
    [
        (_job("PENDING", "Priority"), "job 7 waits for its nodes: Priority", "has not yet estimated"),
        (_job("PENDING", "Priority", started=1), "job 7 waits for its nodes: Priority", "expected to start 19"),
        (_job("PENDING"), "", ""),
        (_job("RUNNING", "Priority"), "", ""),
    ],
)
def test_why_a_job_waits_is_said_of_one_that_waits_for_a_reason(asked: SlurmJob, words: str, start: str) -> None:
    told = words_of_waiting(asked)
    assert told.startswith(words)
    assert start in told
    assert bool(told) == bool(words)


@pytest.mark.parametrize(
    ("asked", "says"),
    [(None, False), (_job("PENDING", "Priority"), True), (_job("PENDING"), True), (_job("RUNNING"), False)],
)
def test_what_is_said_while_nodes_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, asked: SlurmJob | None, says: bool
) -> None:
    monkeypatch.setattr(closing, "_asked", lambda _: asked)
    assert bool(wait_words("7")) is says


_RANK = Failure("rank 1 on n2: exit status 7", "n2", (1,), 7, "")


@pytest.mark.parametrize(
    ("kept", "failure", "says"),
    [
        (Kept(9, started=True, killed=True), _RANK, "ended by SIGKILL on this host, and its ranks"),
        (Kept(137, started=True), None, "ended by SIGKILL on this host"),
        (Kept(137, started=True), _RANK, "ended by SIGKILL on this host"),
        (Kept(137, started=True), replace(_RANK, status=137), "first: rank 1 on n2"),
        (Kept(137, started=True), replace(_RANK, status=None, tasks=()), "first: rank 1 on n2"),
        (Kept(137, started=True), replace(_RANK, status=137, tasks=(), host=None), "ended by SIGKILL on this host"),
        (Kept(7, started=True, job="7"), _RANK, "first: rank 1 on n2: exit status 7 (job 7)"),
        (Kept(7, started=True), None, "it ended with status 7, and no launcher says which rank was the first"),
    ],
)
def test_the_sentence_of_an_end_names_who_failed(kept: Kept, failure: Failure | None, says: str) -> None:
    assert says in _sentence(kept, failure)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (None, "it ended with status 1"),
        (_job("TIMEOUT"), "job 7"),
        (_job("FAILED"), "it ended with status 1"),
        (_job("RUNNING"), "it ended with status 1"),
    ],
)
def test_what_slurm_ended_itself_is_said_in_its_words(
    monkeypatch: pytest.MonkeyPatch, asked: SlurmJob | None, says: str
) -> None:
    monkeypatch.setattr(closing, "_asked", lambda _: asked)
    assert _sentence(Kept(1, started=True, job="7"), None).startswith(says)


_CTRL_C = "srun: error: n2: task 1: Exited with exit code 130\n"


@pytest.mark.parametrize(
    ("kept", "says", "is_kept"),
    [
        (Kept(0, started=True, job="7"), "", False),
        (Kept(141, started=True, job="7"), "", False),
        (
            Kept(1, started=True, job="7", unwritten="No space left"),
            "the output cannot be written: No space left",
            False,
        ),
        (Kept(130, started=True, signal=2, job="7"), "muster: ended by Ctrl-C (job 7)", False),
        (Kept(143, started=False, signal=15, job="7"), "before there were nodes: job 7 is withdrawn", False),
        (Kept(129, started=False, signal=1), "muster: ended by a hang-up before there were nodes\n", False),
        (Kept(130, started=True, job="7"), "muster: ended by Ctrl-C (job 7)", False),
        (Kept(130, started=True, report=_CTRL_C.replace("130", "3")), "muster: ended by Ctrl-C\n", False),
        (Kept(130, started=True, job="7", report=_CTRL_C), "muster: first: ", True),
        (Kept(3, started=True, job="7", report="muster: error: no such\n"), "the script stopped by itself", True),
        (Kept(3, started=True, report="x muster: error: no such\n"), "it ended with status 3", False),
        (Kept(7, started=True, job="7", report=_CTRL_C.replace("130", "7")), "muster: first: ", True),
    ],
)
def test_the_end_of_a_run_is_said_and_a_failed_one_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kept: Kept, says: str, is_kept: bool
) -> None:
    kept_jobs: list[Kept] = []
    monkeypatch.setattr(closing, "_remember", lambda _, kept_job: kept_jobs.append(kept_job))
    monkeypatch.setattr(closing, "_asked", lambda _: None)
    assert _closed(_PLAN, kept, quiet=False) == kept.status
    said = capsys.readouterr().err
    assert says in said
    assert bool(said) == bool(says)
    assert kept_jobs == ([kept] if is_kept else [])


@pytest.mark.parametrize(
    ("status", "report", "is_told"),
    [
        (0, "salloc: error: Unable to clean up job allocation 202: Unable to contact slurm controller", True),
        (7, "x\nsalloc: error: Unable to clean up job allocation 202: Unable to contact slurm controller", True),
        (0, "0: salloc: error: Unable to clean up job allocation 202", False),
        (0, "", False),
    ],
)
def test_an_allocation_that_salloc_could_not_give_back_is_told_with_what_to_do(
    status: int, report: str, is_told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The controller was killed while the ranks ran: run ended with 0, and the job kept its nodes."""
    monkeypatch.setattr(closing, "_remember", lambda *_: None)
    monkeypatch.setattr(closing, "_asked", lambda _: None)
    assert _closed(_PLAN, Kept(status, started=True, job="202", report=report), quiet=True) == status

    told = "job 202 keeps its nodes until its time limit" in (err := capsys.readouterr().err)
    assert (told, "hint: muster cancel 202" in err) == (is_told, is_told)


def test_a_run_that_failed_is_known_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(asked_jobs, "cluster", lambda: "nuA")
    closing._remember(_PLAN, Kept(7, started=True, job="7", output="out\n", report="err\n", began=5.5))
    (entry,) = (tmp_path / "muster/jobs").rglob("*.json")
    told = json.loads(entry.read_text())
    assert (told["job"], told["moved"], told["submitted"]) == ("7", True, 5)
    assert (Path(told["directory"]) / "logs/ranks.log").read_text() == "out\nerr\n"


@pytest.mark.parametrize(("status", "words"), [(128, "status 128; the others"), (129, "status 129 (ended by SIGHUP)")])
def test_the_status_of_a_rank_that_a_signal_ended_is_told_in_words(
    capsys: pytest.CaptureFixture[str], status: int, words: str
) -> None:
    say_of_rank(_PLAN, Outcome(status, 1), quiet=False)
    assert f"rank 1 ended with {words}" in capsys.readouterr().err
    say_of_rank(plan("-N", "1", "--", "python", "t.py"), Outcome(status, 0), quiet=False)
    assert "rank 0 ended" not in capsys.readouterr().err


# --- why, logs, cancel, clean, nodes, queues ---


@pytest.mark.parametrize("more", [0, 1])
def test_of_many_groups_of_nodes_that_are_out_some_are_named(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    groups = [("n1", "down", "broken")] * (why._GROUPS + more)
    monkeypatch.setattr(why, "scheduler", lambda: SimpleNamespace(nodes_out=lambda _: groups))
    lines = list(why._nodes_out("gpu"))
    assert len(lines) == why._GROUPS + more
    assert ("and others" in lines[-1]) is bool(more)


def test_nodes_side_by_side_are_told_where_the_script_asks_for_them(tmp_path: Path) -> None:
    case = JobCase("7", None, Run("7", tmp_path, "train"))
    told = [list(why._neighbours(JobCase("7", None, None))), list(why._neighbours(case))]
    for text in ("#!/bin/bash\n#SBATCH -N 2\n", "#!/bin/bash\n#SBATCH --contiguous\n"):
        (tmp_path / "job.sh").write_text(text)
        told.append(list(why._neighbours(case)))
    assert [len(lines) for lines in told] == [0, 0, 0, 1]


def test_the_lines_of_each_task_have_one_heading_if_they_hold_the_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    lines = [
        OutputLine(rank, b"x", labelled=True, task=task)
        for task, rank in ((None, 0), ("1", 0), ("1", 1), (None, 0), ("2", 1))
    ]
    for rank, headings in ((None, "7_1: 7_2:"), (0, "7_1:"), (1, "7_1: 7_2:"), (3, "")):
        assert list(_with_headings(lines, Run("7", tmp_path, "train"), rank)) == lines
        said = capsys.readouterr().err
        assert " ".join(said.replace("muster: ", "").split()) == headings


def test_where_the_output_lies_is_said_to_be_gone_or_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = cast("Words", SimpleNamespace(follow=False, attempt=None, role=None, rank=None))
    with pytest.raises(RequestError, match="the run directory of job 7 is gone"):
        _output(JobCase("7", None, Run("7", tmp_path / "gone", "train")), words)
    with pytest.raises(RequestError, match="it is not known where"):
        _output(JobCase("7", None, None), words)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "muster-runs/7").mkdir(parents=True)
    (tmp_path / "muster-runs/7/output").write_text("7.out\n")
    assert (_named_output("7"), _named_output("x"), _named_output("8")) == (None, None, None)
    (tmp_path / "7.out").touch()
    assert _named_output("7") == Path("7.out")


@pytest.mark.parametrize(
    ("asked", "rows", "refused"),
    [("7_2", 4, True), ("7_2", 1, False), ("7_2", 0, False), ("7", 4, False), ("7_x", 4, False)],
)
def test_a_row_that_shares_its_job_is_not_cancelled_alone(tmp_path: Path, asked: str, rows: int, refused: bool) -> None:
    for row in range(6):
        (tmp_path / f"task-{row}").mkdir()
    case = JobCase(asked, None, Run("7", tmp_path, "train", rows_per_job=rows))
    with pytest.raises(RequestError, match="row 2 shares its job") if refused else nullcontext():
        cancel._refuse_row_of_many(case)
    cancel._refuse_row_of_many(JobCase("7_2", None, None))


@pytest.mark.parametrize(
    ("typed", "agreed"), [("y", True), ("YES", True), ("n", False), ("", False), ("yesterday", False)]
)
def test_what_is_left_is_removed_if_a_person_agrees(monkeypatch: pytest.MonkeyPatch, typed: str, agreed: bool) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    with pytest.raises(RequestError, match="no terminal to ask"):
        clean._agreed()
    ours, theirs = pty.openpty()
    os.write(ours, f"{typed}\n".encode())
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert clean._agreed() is agreed
    os.close(ours)


def _words(**values: object) -> Words:
    return cast(Words, SimpleNamespace(**values))


@pytest.mark.parametrize("as_json", [True, False])
def test_the_nodes_that_are_forgotten_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(nodes, "cluster", lambda: "nuA")
    monkeypatch.setattr(nodes, "scheduler", lambda: SimpleNamespace(states_of=lambda _: {}))
    assert nodes.main(_words(clear=True, operands=(), json=as_json)) == 0
    said = capsys.readouterr()
    assert (said.out, said.err)[not as_json] == (
        '{\n  "cleared": []\n}\n' if as_json else "muster: nothing was remembered against a node of nuA\n"
    )
    assert nodes.main(_words(clear=False, operands=(), json=as_json)) == 0
    said = capsys.readouterr()
    assert "[]" in said.out if as_json else "nothing is remembered" in said.err
    with pytest.raises(RequestError, match="only to forget"):
        nodes.main(_words(clear=False, operands=("n1",), json=as_json))


def test_partitions_are_a_table_or_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fields: dict[str, Any] = dict.fromkeys(Partition.__struct_fields__, 1)
    fields |= {"name": "gpu", "is_up": True, "gres": ("gpu:4",), "nodes_by_state": {"idle": 1}, "time_limit_s": 60}
    made = Partition(**{**fields, "memory_mib_per_node": 4096, "most_nodes": None})
    monkeypatch.setattr(queues, "scheduler", lambda: SimpleNamespace(partitions=lambda: ([made], {"gpu": 3})))
    assert queues.main(_words(json=True)) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["waiting_jobs"], row["nodes_by_state"]) == ("gpu", 3, {"idle": 1})
    assert queues.main(_words(json=False)) == 0
    table = capsys.readouterr().out
    assert "1 to any" in table
    assert "1 CPUs, 4 GiB, gpu:4" in table
    assert table.rstrip().endswith(" 3")


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (_job("RUNNING", started=1000, time_limit_s=100), "50 s|0:50|00:50"),
        (_job("RUNNING", started=None, time_limit_s=100), ""),
        (_job("RUNNING", started=1000, time_limit_s=None), ""),
    ],
)
def test_what_is_left_of_a_job_s_time_is_told_where_it_is_known(
    monkeypatch: pytest.MonkeyPatch, job: SlurmJob, says: str
) -> None:
    monkeypatch.setattr("time.time", lambda: 1050.0)
    told = _left(job)
    assert bool(told) == bool(says)
    assert not told or any(word in told for word in says.split("|"))


# --- beside a rank ---


@pytest.mark.parametrize(
    ("ranks", "rank", "host"),
    [
        ("2", 0, "n1"),
        ("2", 3, "n1"),
        ("2", 4, "n2"),
        ("2", 7, "n2"),
        ("2", 8, "no rank 8"),
        ("", 0, "n1"),
        ("", 1, "not known"),
    ],
)
def test_the_host_of_a_rank_is_known_where_the_plan_is(tmp_path: Path, ranks: str, rank: int, host: str) -> None:
    shape = {"shape": {"nodes": 2, "ntasks_per_node": 4}, "label": True, "output": "files", "launcher": "srun"}
    (tmp_path / "plan.json").write_text(json.dumps(shape) if ranks else "{}")
    case = JobCase("7", _job("RUNNING", node_list="n[1-2]"), Run("7", tmp_path, "train"))
    if host.startswith("no"):
        with pytest.raises(RequestError, match=host):
            _host_of(case, rank)
    else:
        assert _host_of(case, rank) == host


# --- words on a screen ---


def test_each_site_s_first_steps_have_the_options_that_it_requires() -> None:
    for name in ("lumi", "marenostrum5", "leonardo"):
        site = bundled(name)
        flags = [words.split()[0] for words in _required(site)]
        known = {"account": "-A", "time": "-t", "partition": "-p", "qos": "-q"}
        assert flags == [known[field] for field in site.profile.request.required or () if field in known]


@pytest.mark.parametrize(("asked", "width"), [("120", 120), ("1", 1), ("0", 80), ("", 80), ("x", 80), ("-5", 80)])
def test_the_width_of_a_screen_is_what_columns_says_if_it_is_one(
    monkeypatch: pytest.MonkeyPatch, asked: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", asked)
    reading, writing = os.pipe()
    try:
        assert screen_width(writing) == width
    finally:
        os.close(reading)
        os.close(writing)


def test_a_terminal_that_tells_no_width_has_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = pty.openpty()  # a new one tells 0
    try:
        assert screen_width(theirs) == 80
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_line_that_fills_its_row_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        assert at_words("ab cd ef g", terminal) == "ab cd ef g"
        assert at_words("ab cd ef gh", terminal) != "ab cd ef gh"
    os.close(ours)


def test_a_text_stands_behind_its_head_while_the_longest_word_fits_there() -> None:
    text = "words " * 20
    assert hanging("head: ", text, 6 + _LONGEST_WORD)[0].startswith("head: words")
    assert hanging("head: ", text, 5 + _LONGEST_WORD)[0] == "head:"
    assert hanging("head: ", " " * 99, 6 + _LONGEST_WORD) == ["head:"]


def test_a_table_as_wide_as_its_words_has_room() -> None:
    assert _widths(("ab", "cd"), [("x y", "1")], 4) == [2, 2]
    assert _widths(("ab", "cd"), [("x y", "1")], 3) is None


def test_a_letter_that_a_stream_does_not_take_is_spelt() -> None:
    for text, spelt in (("…", "..."), ("é", "\\xe9")):
        with pytest.raises(UnicodeEncodeError) as refused:
            text.encode("ascii")
        assert _spell(refused.value) == (spelt, 1)


def test_the_jobs_of_this_person_lie_below_home_where_home_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    assert Path("/home/ada") in asked_jobs.state().parents
    monkeypatch.delenv("HOME")
    assert Path(pwd.getpwuid(os.getuid()).pw_dir) in asked_jobs.state().parents
