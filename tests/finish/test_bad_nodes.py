"""What counts against a node, and for how long; only files of one's own are read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from launch.plans import plan
from muster.act import bad_nodes
from muster.act.bad_nodes import (
    KEPT_S,
    BadNode,
    KnownFaults,
    MemoryUnreadable,
    NodeFault,
    Sighting,
    forget_nodes,
    load,
    remember,
)
from muster.act.record import Run, register
from muster.errors import RequestError
from muster.follow.node_memory import leave_out, nodes_to_avoid
from muster.job.request import Request
from muster.model.plan import Note
from muster.render.document import plan_as_json
from muster.render.script import job_script
from muster.slurm.cluster import NodeState, node_state

_ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


_LeftOut = tuple[Request, list[Note]]


class _Jobs:
    """Jobs of this user that have ended."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.now: dict[str, NodeState] = {}

    def ended(self, job: str, *ends: tuple[object, ...], attempts: str = "", name: str = "train") -> Path:
        """A job with these ends: rank, host, status, cause; and its kind and error line, where they are known."""
        directory = self._run(job, name)
        now = int(time.time())
        lines = [
            "\t".join(map(str, (number, now - 9, now, status, rank, host, "end", cause, "not started again", *kind)))
            + ("\n" if kind else "\t\t\n")
            for number, (rank, host, status, cause, *kind) in enumerate(ends, 1)
        ]
        (directory / "ends").write_text("".join(lines))
        if attempts:
            (directory / "attempts").write_text(attempts)
        return directory

    def wrote(self, job: str, batch: str, name: str = "train", **logs: str) -> Path:
        """A job without attempts, whose output is this."""
        directory = self._run(job, name)
        (directory / "logs" / "batch.log").write_text(batch)
        for host, text in logs.items():
            (directory / "logs" / f"{host}.log").write_text(text)
        return directory

    def _run(self, job: str, name: str) -> Path:
        directory = self.folder / f"run-{job}"
        (directory / "logs").mkdir(parents=True)
        (directory / "plan.json").write_text(
            plan_as_json(plan("-N", "2", "--ntasks-per-node", "1", "--", "python", name))
        )
        register(self.state, Run(job, directory, name, "fir", int(time.time()), "d"))
        return directory

    def bad(self) -> dict[str, tuple[str, str]]:
        """What the next submission excludes: the cause and the job, by node."""
        return {each.node: (each.cause, each.job) for each in nodes_to_avoid(self.state, "fir", self.states)}

    def states(self, nodes: Sequence[str]) -> dict[str, NodeState]:
        """What Slurm says of the nodes now."""
        return {node: self.now[node] for node in nodes if node in self.now}

    def left_out(self, request: Request, enough: Callable[[Sequence[str]], bool] = lambda _: True) -> _LeftOut:
        """What a submission makes of it."""
        return leave_out(request, self.state, "fir", states=self.states, fits=enough)

    def ran_well(self, job: str, nodes: str, script: str = "train.py") -> None:
        """A job of a script that ended well on these nodes."""
        (self._run(job, script) / "well").write_text(f"{int(time.time())}\t{nodes}\n")


@pytest.fixture
def jobs(tmp_path: Path) -> _Jobs:
    return _Jobs(tmp_path)


def _killed(rank: int, host: str) -> tuple[object, ...]:
    return (rank, host, 137, f"rank {rank} on {host}: ended by SIGKILL", "rank", "")


@pytest.mark.parametrize(
    "happened",
    [
        lambda jobs: jobs.ended("7", ("", "n2", 1, "n2 failed", "node", "")),
        lambda jobs: jobs.ended("7", (0, "n1", 0, ""), attempts=f"2\t{int(time.time())}\tn1\tn2\n"),
        lambda jobs: jobs.wrote("7", "srun: error: Node failure on n2\n"),
    ],
    ids=["an attempt", "put back into the queue", "no attempts"],
)
def test_a_node_that_slurm_calls_dead_is_excluded(jobs: _Jobs, happened: Callable[[_Jobs], None]) -> None:
    happened(jobs)

    assert jobs.bad() == {"n2": ("Slurm said that it died", "7")}


@pytest.mark.parametrize(
    "happened",
    [
        lambda jobs: jobs.ended("8", (1, "n2", 1, f"rank 1 on n2: exit status 1 ({_ECC})", "rank", _ECC)),
        lambda jobs: jobs.wrote("8", "srun: error: n2: task 1: Exited with exit code 1\n", n2=f"1: {_ECC}\n1: more\n"),
    ],
    ids=["an attempt", "no attempts"],
)
def test_an_error_that_is_known_to_be_of_a_node_counts_at_once(jobs: _Jobs, happened: Callable[[_Jobs], None]) -> None:
    happened(jobs)

    assert jobs.bad() == {"n2": ("the GPU's memory is faulty", "8")}


@pytest.mark.parametrize(
    "end",
    [
        (1, "n2", 7, "rank 1 on n2: exit status 7", "rank", ""),
        (1, "n2", 1, "rank 1 on n2: exit status 1 (ValueError: bad)", "rank", "ValueError: bad"),
        (1, "n2", 137, "rank 1 on n2: ended by SIGKILL (MemoryError: much)", "rank", "MemoryError: much"),
        (1, "n2", 143, "rank 1 on n2: ended by SIGTERM", "rank", ""),
        (1, "n2", 137, "rank 1 does not go on since 30 minutes"),
        ("", "n2", 1, "mpirun lost its daemon on n2"),
        ("", "", 137, "Slurm ended the ranks: on n2 they used 248 MiB of memory, and had 200"),
    ],
)
def test_faults_of_the_script_never_count(jobs: _Jobs, end: tuple[object, ...]) -> None:
    for job in ("1", "2", "3"):
        jobs.ended(job, end, name=f"name{job}")

    assert jobs.bad() == {}


def test_scripts_that_fail_first_on_one_node_alone_and_run_well_elsewhere_blame_the_node(jobs: _Jobs) -> None:
    jobs.ended("1", _killed(1, "n2"), name="a.py")
    jobs.ended("2", _killed(1, "n2"), name="b.py")
    assert jobs.bad() == {}, "they never ran well elsewhere"
    jobs.ran_well("3", "n[1-2]", "a.py")
    jobs.ran_well("4", "n[3-4]", "b.py")
    assert jobs.bad() == {}, "one of them never did"

    jobs.ran_well("5", "n[3-4]", "a.py")
    cause, job = jobs.bad()["n2"]
    assert cause.startswith("the first to fail in the jobs 1 and 2, whose scripts ran well elsewhere (rank 1 of b.py: ")
    assert job == "2"

    jobs.ended("6", _killed(0, "n7"), name="a.py")
    assert jobs.bad() == {}, "a script that fails so on two nodes fails by itself"


def test_one_script_alone_blames_no_node(jobs: _Jobs) -> None:
    """It is killed at a rank that varies, and hits the same node again and again."""
    jobs.ran_well("90", "n[1-9]")
    for job, rank in enumerate((1, 5, 3, 1), 1):
        jobs.ended(str(job), _killed(rank, "n2"), name="train.py")
    jobs.ran_well("91", "n[3-4]")

    assert jobs.bad() == {}


def test_a_node_that_slurm_has_back_is_forgotten(jobs: _Jobs) -> None:
    folder = jobs.ended("7", ("", "n2", 1, "n2 failed", "node", ""))
    jobs.ended("8", (1, "n3", 1, f"rank 1 on n3: exit status 1 ({_ECC})", "rank", _ECC))
    for state in (NodeState.DOWN, NodeState.OTHER):
        jobs.now = {"n2": state, "n3": NodeState.UP}
        assert set(jobs.bad()) == {"n2", "n3"}

    jobs.now = {"n2": NodeState.UP}
    assert set(jobs.bad()) == {"n3"}, "Slurm has its faulty GPU too, and does not know of it"
    os.utime(folder / "ends", (time.time() + 5, time.time() + 5))
    jobs.now = {}
    assert set(jobs.bad()) == {"n3"}, "the same end is read again, and does not count again"


def test_a_host_whose_ranks_end_is_not_known_counts_when_slurm_calls_it_down(jobs: _Jobs) -> None:
    jobs.wrote("7", "muster: how rank 1 on n2 ended is not known\n")
    jobs.ended("8", ("", "n3", 1, "how rank 2 on n3 ended is not known", "unsaid", ""))
    assert jobs.bad() == {}, "the rank may have lost its shell"

    jobs.now = {"n2": NodeState.DOWN, "n3": NodeState.UP}
    assert jobs.bad() == {"n2": ("how its ranks ended is not known, and then Slurm called it down", "7")}


def test_a_dead_node_that_slurm_does_not_name_blames_none(jobs: _Jobs) -> None:
    jobs.wrote("7", "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE ***\n")
    assert jobs.bad() == {}


@pytest.mark.parametrize(
    ("words", "state"),
    [
        *((words, "down") for words in ("down*", "DOWN", "fail")),
        *((words, "up") for words in ("idle", "mixed", "allocated", "completing")),
        *((words, "other") for words in ("idle*", "drained", "draining", "maint")),
    ],
)
def test_the_words_of_sinfo_for_a_node(words: str, state: str) -> None:
    assert node_state(words).value == state


def test_a_memory_of_nodes_makes_no_job_impossible(jobs: _Jobs) -> None:
    jobs.ended("7", ("", "n2", 1, "n2 failed", "node", ""))
    jobs.ended("8", (1, "n3", 1, f"rank 1 on n3: exit status 1 ({_ECC})", "rank", _ECC))
    os.utime(jobs.folder / "run-7" / "ends", (time.time() - 99, time.time() - 99))

    request, notes = jobs.left_out(Request(command=("x",)), lambda nodes: len(nodes) < 2)
    assert request.exclude in {"n2", "n3"}
    assert [note.text.partition(":")[0] for note in notes] == [
        "excluded",
        "taken, since the job has too few nodes without",
    ]
    request, (note,) = jobs.left_out(Request(command=("x",)), lambda nodes: not nodes)
    assert (request.exclude, note.warning) == (None, True)


def test_it_is_forgotten_after_a_week_and_when_it_is_cleared(jobs: _Jobs) -> None:
    jobs.ended("7", ("", "n2", 1, "n2 failed", "node", ""))
    assert set(jobs.bad()) == {"n2"}
    memory = load(jobs.state, "fir")
    later = remember(memory, (), {}, now=time.time() + KEPT_S + 1)
    assert bad_nodes.bad_nodes(later) == []

    with pytest.raises(RequestError, match="nothing is remembered against n9"):
        forget_nodes(jobs.state, "fir", ["n9"])
    assert forget_nodes(jobs.state, "fir", []) == ["n2"]
    os.utime(jobs.folder / "run-7" / "ends", (time.time() + 5, time.time() + 5))
    assert jobs.bad() == {}, "the same end is read again, and does not count again"


def test_what_is_not_ones_own_is_not_read(jobs: _Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.ended("7", ("", "n2", 1, "n2 failed", "node", ""))
    assert set(jobs.bad()) == {"n2"}

    file = jobs.state / "nodes" / "fir.json"
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    link = jobs.state / "nodes" / "elm.json"
    link.symlink_to(file)
    for cluster in ("fir", "elm"):
        with pytest.raises(MemoryUnreadable, match="it is another user's, or a link"):
            load(jobs.state, cluster)
    assert load(jobs.state, "oak") == KnownFaults(())


@pytest.mark.parametrize(
    "text", ["{", '{"a": 1}', "{}", "[]", '{"sightings": [{"node": "n9", "cause": "a cause of a later Muster"}]}']
)
def test_a_memory_that_cannot_be_read_is_kept_and_said(text: str, jobs: _Jobs) -> None:
    jobs.ended("7", ("", "n2", 1, "n2 failed", "node", ""))
    (jobs.state / "nodes").mkdir()
    file = jobs.state / "nodes" / "fir.json"
    file.write_text(text)

    request, (note,) = jobs.left_out(Request(command=("x",), exclude="a1"))
    assert (request.exclude, note.warning) == ("a1", True)
    assert note.text.startswith(f"no node is excluded: the nodes that failed under earlier jobs are not known: {file} ")
    for forget in (jobs.bad, lambda: forget_nodes(jobs.state, "fir", [])):
        with pytest.raises(MemoryUnreadable) as caught:
            forget()
        assert caught.value.hint == f"look at it; rm {file} forgets what it holds"
    assert file.read_text() == text


def test_a_job_is_read_once(jobs: _Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.ended("7", ("", "n2", 1, "n2 failed", "node", ""))
    jobs.bad()
    monkeypatch.setattr("muster.follow.node_faults.sightings_of", lambda *_: pytest.fail("it is read again"))

    assert set(jobs.bad()) == {"n2"}


def test_the_script_excludes_the_nodes_beside_the_excluded_ones(jobs: _Jobs) -> None:
    jobs.ended("7", ("", "n2", 1, "n2 failed", "node", ""))
    request, notes = jobs.left_out(Request(command=("x",), exclude="a[1-2]"))

    assert request.exclude == "a[1-2],n2"
    assert [each.text for each in notes] == [
        "excluded: n2: Slurm said that it died, job 7 (muster nodes --clear forgets them)"
    ]
    script = job_script(plan("--exclude", request.exclude, "--", "hostname"))
    assert "--exclude=a[1-2],n2" in script


def test_a_node_that_is_named_stays(jobs: _Jobs) -> None:
    jobs.ended("7", ("", "n2", 1, "n2 failed", "node", ""))
    request, notes = jobs.left_out(Request(command=("x",), nodelist="n[1-2]"))

    assert (request.exclude, notes) == (None, [])


def test_the_newest_cause_is_told() -> None:
    old = Sighting("n2", "1", 100, NodeFault.KNOWN, "the GPU's memory is faulty")
    new = Sighting("n2", "2", 200, NodeFault.DIED, "Slurm said that it died")

    assert bad_nodes.bad_nodes(KnownFaults((new, old))) == [BadNode("n2", new.words, "2", 200, 200 + KEPT_S)]
