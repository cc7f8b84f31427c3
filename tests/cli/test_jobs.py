"""muster jobs: one list, in which a link of a job says whose it is; and what a task of an array has by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.act.record import Run, register
from muster.cli.asked_jobs import cluster, state
from muster.cli.jobs import _links_among, _order, _row, _what
from muster.cli.logs import _look_at_chain, _show, _with_headings
from muster.cli.why import _output
from muster.follow.cases import JobCase
from muster.follow.hang_report import HANG_REPORT
from muster.follow.scheduler import Answer
from muster.follow.watch import Follower, output_of_run
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of


def job(number: int, shown_id: str, state: str, folder: Path, *, comment: str = "muster:abc") -> SlurmJob:
    """Return a job of Muster's whose output lies in a folder."""
    nodes = "" if state in {"PENDING", "CANCELLED"} else "node1"
    stdout = f"{folder}/logs/batch.log"
    return SlurmJob(
        str(number),
        shown_id,
        "train",
        state_of(state),
        reason_of("None"),
        node_list=nodes,
        stdout=stdout,
        comment=comment,
    )


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return the folders of the tasks 1 and 2 of the array 9, whose next links are the arrays 12 and 13."""
    for task, link in ((1, 12), (2, 13)):
        folder = tmp_path / f"task-{task}"
        folder.mkdir()
        (folder / "links").write_text(f"1\t9_{task}\t100\n2\t{link}_{task}\t101\n")
        (folder / "attempts").write_text("1\t100\tnode1\t\t9_1\n")
    return tmp_path / "task-1", tmp_path / "task-2"


def test_a_link_says_whose_it_is(folders: tuple[Path, Path]) -> None:
    first, second = folders
    jobs = [
        job(10, "9_1", "COMPLETED", first),
        job(11, "9_2", "RUNNING", second),
        job(12, "12", "CANCELLED", first),
        job(13, "13_[2]", "PENDING", second),
        job(14, "14", "CANCELLED", second, comment="muster:other"),
    ]
    links = _links_among(jobs)

    assert links == {"12": "link 2 of job 9_1", "13": "link 2 of job 9_2"}
    assert _row(jobs[2], links.get("12"), accounts=False)[-1] == f"link 2 of job 9_1: {_what(jobs[2])}"
    assert _row(jobs[3], links.get("13"), accounts=False)[-1] == "link 2 of job 9_2"


def test_tasks_stand_by_their_number_and_those_that_ended_last(tmp_path: Path) -> None:
    rows = [
        (9, "9_10", "RUNNING"),
        (11, "9_2", "RUNNING"),
        (4, "4", "FAILED"),
        (30, "30", "PENDING"),
        (6, "5+1", "RUNNING"),
        (5, "5+0", "RUNNING"),
    ]
    jobs = [job(number, shown_id, state, tmp_path) for number, shown_id, state in rows]

    assert [each.shown_id for each in sorted(jobs, key=_order)] == ["5+0", "5+1", "9_2", "9_10", "30", "4"]


def test_the_lines_of_each_task_of_an_array_stand_under_its_name(
    folders: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run = Run("9", folders[0].parent, "train")
    for folder, name in zip(folders, ("one", "two")):
        for logs in (folder / "logs", folder / "logs/attempt-2"):
            logs.mkdir()
            (logs / "node1.log").write_text(f"0: {name}\n")
    (folders[0] / "row.json").write_text('{"lr": "0.1"}')
    lines = list(Follower(output_of_run(run.directory)).new_lines(final=True))

    assert {line.task for line in lines} == {"1", "2"}
    assert _show(_with_headings(lines, run, None), None, as_json=False) == 2
    out, err = capfdbinary.readouterr()
    assert out == b"0: one\n0: two\n"
    assert err == b"muster: 9_1 (lr=0.1):\nmuster: 9_2:\n"


_TWO = "1\t57\t1\n2\t58\t2\n"


@pytest.mark.parametrize(
    ("links", "states", "decision", "stands_for_all", "is_over"),
    [
        pytest.param("", {"57": "PENDING"}, "", "57", False, id="not begun: no link is noted yet"),
        pytest.param(_TWO, {"57": "FAILED", "58": "PENDING"}, "next", "58", False, id="goes on"),
        pytest.param(_TWO, {"57": "COMPLETED", "58": "CANCELLED"}, "done", "57", True, id="done"),
        pytest.param(_TWO, {"57": "COMPLETED", "58": "CANCELLED"}, "saved", "58", True, id="the rest was cancelled"),
        pytest.param("", {"57": "CANCELLED"}, "", "57", True, id="withdrawn before it began"),
    ],
)
def test_a_job_that_goes_on_is_followed_to_the_end_of_its_last_link(
    links: str,
    states: dict[str, str],
    decision: str,
    stands_for_all: str,
    is_over: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = Run("57", tmp_path / "run", "train", cluster(), links=20)
    run.directory.mkdir()
    (run.directory / "links").write_text(links)
    (run.directory / "attempts").write_text("1\t1\tnode1\t\t57\n" if decision else "")
    (run.directory / "ends").write_text(f"1\t1\t9\t0\t\t\t{decision}\t\t\t\t\n" if decision else "")
    register(state(), run)
    jobs = tuple(job(int(name), name, word, run.directory, comment="muster:") for name, word in states.items())

    newest, over = _look_at_chain(JobCase("57", jobs[0], run), Answer(jobs, ("57",)))

    assert newest.job is not None
    assert (newest.job.id, over) == (stands_for_all, is_over)
    assert (_output(newest) is None) is newest.job.was_withdrawn, "its folder has the lines of the link before it"


def test_a_task_has_its_own_id_attempt_and_hang(folders: tuple[Path, Path]) -> None:
    (folders[1] / "attempts").write_text("1\t100\tnode1\n2\t130\tnode1\n")
    (folders[1] / HANG_REPORT).write_text("no rank has gone on for 5 s\n")
    run = Run("9", folders[0].parent, "train")
    cases = [JobCase("9", job(9 + task, f"9_{task}", "RUNNING", folders[task - 1]), run) for task in (1, 2)]

    assert [case.id_to_type for case in cases] == ["9_1", "9_2"]
    assert [case.attempt for case in cases] == [1, 2]
    assert [case.reported_hang for case in cases] == [None, "no rank has gone on for 5 s"]
    assert JobCase("57", job(60, "60", "RUNNING", folders[0]), run).id_to_type == "57"
