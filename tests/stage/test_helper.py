"""The helper of a node, alone: what it removes when it starts, and what it leaves."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from muster.render.parts import part
from muster.runner import run

OLD_S = 1_000_000_000  # 2001


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """The folder of a node, in which a copy and two jobs are older than two weeks."""
    top = tmp_path / "node"
    for name in ("data-0123456789abcdef", "job-8/out", "job-9/out"):
        (top / name).mkdir(parents=True)
    for each in top.iterdir():
        os.utime(each, (OLD_S, OLD_S))
    return top


def start(top: Path, job: str = "10") -> None:
    """The helper of a job that stages nothing, from its start to its end."""
    words = ["sh", "-c", part("stage_node"), "muster-stage", str(top), job, "1", "0", "-"]
    done = run(words, stdin=f"muster_end\t{top.parent}\n")
    assert "ready" in done.stdout, done.stderr


def left(top: Path) -> set[str]:
    return {each.name for each in top.iterdir()}


def test_what_no_job_has_used_for_two_weeks_goes_and_what_a_killed_one_left(top: Path) -> None:
    for job in ("job-8", "job-9"):
        (top / job / "helper").write_text("4194305\n")  # above the largest pid there can be
    start(top)
    assert left(top) == set()


def test_nothing_goes_that_a_job_of_many_weeks_still_reads_or_has_written(top: Path) -> None:
    (top / "job-8/helper").write_text(f"{os.getpid()}\n")
    (top / "job-8/out/checkpoint.pt").write_text("weights")
    start(top)
    assert left(top) == {"data-0123456789abcdef", "job-8", "job-9"}
    assert (top / "job-8/out/checkpoint.pt").exists()


def test_results_that_nobody_has_brought_home_stay(top: Path) -> None:
    (top / "job-9/helper").write_text("4194305\n")
    (top / "job-9/out/checkpoint.pt").write_text("weights")
    start(top)
    assert (top / "job-9/out/checkpoint.pt").exists()


def test_a_rank_that_ends_late_after_a_cancel_is_brought_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    """Two nodes share the folder; one rank goes on for longer than its helper waits before it brings what is there."""
    out = tmp_path / "out"
    out.mkdir()
    helpers, ranks = {}, {}
    for node, last in (("a", "sleep 12"), ("b", "exit")):
        folder = tmp_path / node / "job-10"
        words = ["sh", "-c", part("stage_node"), "muster-stage", str(tmp_path / node), "10", "2", "0", str(out)]
        environment = {**os.environ, "SLURMD_NODENAME": node}
        helpers[node] = Popen(words, stdin=PIPE, stdout=PIPE, text=True, env=environment)
        said = helpers[node].stdout
        assert said is not None
        assert "ready" in said.readline()
        for name in ("same", node):
            (folder / "out" / name).write_text(f"{node} first\n")
        (folder / "gate").touch()
        late = f"while [ -e gate ]; do sleep 0.1; done; {last}; echo {node} last >>out/same"
        ranks[node] = Popen(["sh", "-c", late], cwd=folder)
        (folder / "ranks" / str(ranks[node].pid)).touch()
    for node, helper in helpers.items():
        helper.terminate()
        (tmp_path / node / "job-10/gate").unlink()
    assert ranks["b"].wait() == 0  # also reaps it: the helper sees that it has ended
    assert ranks["a"].wait() == 0
    for helper in helpers.values():
        assert "brought 2" in helper.communicate()[0]
        assert helper.returncode == 143
    assert len(list(out.iterdir())) == 4
    assert (out / "a").exists()
    assert sorted(each.read_text() for each in out.glob("same*")) == ["a first\na last\n", "b first\n"]
