"""What the supervisor of a job takes for the first cause, from lines that Slurm wrote on a lab."""

from __future__ import annotations

import os
import time
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from muster.follow.attempt_list import EndCause, read_ends
from muster.life import asking
from muster.life.attempt import RunningAttempt
from muster.life.machine import FirstCause, LifePhase, LifeState, LifeTerms, NoteEnd, decide
from muster.life.rules import Rules
from muster.life.supervise import Supervisor
from muster.life.told import end_words, last_error
from muster.render.parts import compose
from muster.runner import run

# Open MPI 4.1.4, whose srun found no controller.
_NO_START = ["An ORTE daemon has unexpectedly failed after launch and before", "communicating back to mpirun."]
_WAITED = "muster: Slurm ended the step of mpirun's daemons, and mpirun waited on: it was ended"
_RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
_OWN = "rank 1 on node2: exit status 1 (ValueError: 3)"
_LOST = [
    f"0: {_RESET}",
    "srun: error: node1: task 0: Exited with exit code 1",
    "srun: error: node2: task 1: Terminated",
]
_KINDS = {"rank": "rank ", "node": "node"}
"""What the words of a cause begin with, by its kind."""


def _ended(lines: list[str], status: int, tells: str = "srun", ends: str = "") -> tuple[RunningAttempt, FirstCause]:
    """Play an attempt that wrote these lines; return it, and what the machine takes for its first cause."""
    rules = Rules(("file=job.sh", f"tells={tells}", "lines=labelled"), {"SLURM_JOB_ID": "7"})
    running = RunningAttempt(1, ("node1", "node2"), rules, -1, lambda _: None, lambda *_: None)
    running._tail = "\n".join([*lines, ""]).encode()
    terms, state = LifeTerms(4, 2, hears_all=tells == "srun"), LifeState(phase=LifePhase.RUNS)
    events: list[Any] = running.heard("ends", ends)
    for line in lines:
        if line.startswith("srun: ") and tells != "mpirun":
            events += running.heard("srun", line)
    events += running.events_of_end(running.read_end(status))[:-1]
    for event in events:
        state, _ = decide(terms, state, event, 1.0)
    return running, state.first or FirstCause("")


def kind_of(cause: str) -> str:
    """Return the kind that a cause of these tests has."""
    return next((kind for kind, words in _KINDS.items() if cause.startswith(words)), "")


@pytest.mark.parametrize(
    ("status", "lines", "cause"),
    [
        (
            137,
            [
                "srun: error: node3: task 2: Killed",
                "srun: error: Node failure on node4",
                "srun: error: node1: task 0: Killed",
            ],
            "node4 failed",
        ),
        (
            7,
            ["srun: error: node2: tasks 1,3: Exited with exit code 7", "srun: error: node1: task 0: Terminated"],
            "rank 1 on node2: exit status 7",
        ),
        (
            137,
            [
                "1: slurmstepd-node2: error: StepId=8.0 exceeded memory limit (231182336 > 209715200), being killed",
                "srun: error: node3: task 2: Killed",
            ],
            "Slurm ended the ranks: on node2 they used 220 MiB of memory, and had 200",
        ),
        (
            137,
            ["slurmstepd: error: StepId=4.0 exceeded memory limit (8589934592 > 4294967296), being killed"],
            "Slurm ended the ranks: they used 8192 MiB of memory, and had 4096",
        ),
        (200, ["srun: error: node2: task 1: Exited with exit code 200"], "rank 1 on node2: exit status 200"),
        (137, ["srun: error: node2: task 1: Killed"], "rank 1 on node2: ended by SIGKILL"),
        (1, ["1: ValueError: 3", *_LOST], _OWN),
        (1, [f"1: {_RESET}", *_LOST], f"rank 0 on node1: exit status 1 ({_RESET})"),
        (1, ["2: ValueError: 3", *_LOST], f"rank 0 on node1: exit status 1 ({_RESET})"),
        (1, ["1: [W] Error: a warning", *_LOST], f"rank 0 on node1: exit status 1 ({_RESET})"),
        (1, ["1: ValueError: 3", *_LOST, "srun: error: Node failure on node4"], "node4 failed"),
    ],
)
def test_of_srun(status: int, lines: list[str], cause: str) -> None:
    running, first = _ended(lines, status)

    assert running.cause_text(first) == cause
    assert first.kind == (kind_of(cause) or "memory")


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([_WAITED], "mpirun lost its daemon"),
        (["  Remote daemon: [[27343,0],2] on node node3", _WAITED], "mpirun lost its daemon on node3"),
        (["muster: rank 1 on node2 ended with status 7", _WAITED], "rank 1 on node2: exit status 7"),
        (["[1,3]<stderr>:muster: rank 3 on node2 ended with status 7"], "rank 3 on node2: exit status 7"),
        (_NO_START, "mpirun could not start its daemons on the nodes"),
        ([*_NO_START, "muster: rank 1 on node2 ended with status 7"], "rank 1 on node2: exit status 7"),
        (["nothing to do with it"], "exit status 7"),
    ],
)
def test_of_mpirun(lines: list[str], cause: str) -> None:
    running, first = _ended(lines, 7, "mpirun")

    assert running.cause_text(first) == cause


_AGENTS = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_07:00:0{second}
  host      : node{host}
  rank      : {rank} (local_rank: 0)
  exitcode  : {code} (pid: 4711)
"""


@pytest.mark.parametrize(
    ("reports", "status", "more", "cause"),
    [
        ([(5, 1, 0, 7), (4, 2, 2, 7)], 7, [], "rank 2 on node2: exit status 7"),
        ([(4, 1, 0, -15), (5, 2, 3, 7)], 7, [], "rank 3 on node2: exit status 7"),
        ([], 7, [], "torchrun itself on node1: exit status 7"),
        ([], 7, ["srun: error: Node failure on node3"], "torchrun itself on node1: exit status 7"),
        ([], 7, ["srun: error: Node failure on node1"], "node1 failed"),
        ([], 1, ["srun: error: Node failure on node3"], "node3 failed"),
        ([], 1, [], "exit status 1"),
        ([(4, 1, 0, 1), (4, 2, 1, 1)], 1, [f"0: {_RESET}", "1: ValueError: 3"], _OWN),
        (
            [(4, 1, 0, 1), (4, 2, 1, 1)],
            1,
            [f"0: {_RESET}", f"1: {_RESET}"],
            f"rank 0 on node1: exit status 1 ({_RESET})",
        ),
    ],
)
def test_of_torchrun(reports: list[tuple[int, int, int, int]], status: int, more: list[str], cause: str) -> None:
    texts = [_AGENTS.format(second=second, host=host, rank=rank, code=code) for second, host, rank, code in reports]
    lines = [*"".join(texts).splitlines(), f"srun: error: node1: task 0: Exited with exit code {status}", *more]
    running, first = _ended(lines, status, "torchrun")

    assert running.cause_text(first) == cause


_FAILS = """#!/bin/sh
cat <<END >&2
{lines}
END
{then}
"""


@pytest.mark.parametrize(
    ("lines", "then", "dead"),
    [
        (
            [
                "srun: error: Task launch for StepId=33.1 failed on node node2: Communication connection failure",
                "srun: error: Application launch failed: Communication connection failure",
                "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
            ],
            "exec sleep 600",
            ("node2",),
        ),
        ([], "exit 0", ()),
        (["srun: error: Unable to create step for job 7: Invalid generic resource"], "exit 1", ()),
        ([], "exec sleep 600", None),
    ],
    ids=["a dead node", "all live", "another trouble", "no answer"],
)
def test_a_node_that_starts_no_step_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str],
    then: str,
    dead: tuple[str, ...] | None,
) -> None:
    """An srun that waits on after its words, as it does for a dead node, is not waited for."""
    (tmp_path / "srun").write_text(_FAILS.format(lines="\n".join(lines), then=then))
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    began = time.monotonic()

    assert asking.ask_nodes(("node1", "node2"), 2.0) == (None if dead is None else (dead, ()))
    assert time.monotonic() < began + 300


# A program of the name `mpirun` whose child of the name `srun` ends, while it may wait on, deaf to SIGTERM.
_MPIRUN = """
trap '' TERM
"$2" {seconds} &
wait "$!"
{then}
"""


@pytest.mark.parametrize(
    ("srun_s", "then", "is_ended"),
    [("3", "while :; do sleep 0.1; done", True), ("1.5", "exit 0", False)],
    ids=["waits on", "ends by itself"],
)
def test_an_mpirun_that_outlives_the_step_of_its_daemons_is_ended(
    tmp_path: Path, srun_s: str, then: str, is_ended: bool
) -> None:
    for name, program in (("mpirun", "bash"), ("srun", "sleep")):
        (tmp_path / name).symlink_to(which(program) or "")
    (tmp_path / "daemons.sh").write_text(_MPIRUN.format(seconds=srun_s, then=then))
    script = f"""{compose(("mpirun_waits",))}
muster_watch_daemons
"$1/mpirun" "$1/daemons.sh" mpirun "$1/srun"
echo $?
wait "$muster_daemons_watcher"
"""
    done = run(["bash", "-c", script, "bash", str(tmp_path)], env={**os.environ, "MUSTER_GRACE": "1"}, timeout_s=60)

    assert done.stdout == ("137\n" if is_ended else "0\n"), done.stderr
    assert (_WAITED in done.stderr) == is_ended


# An mpirun of MPICH's that writes a line, and waits for a proxy that did not hear of the end; or one that works on.
_HYDRA = """#!/bin/sh
echo "$1" >>report
sleep "$2" &
wait "$!"
"""


@pytest.mark.parametrize(
    ("line", "seconds", "is_ended"),
    [
        ("[2] muster: rank 2 on node2 ended with status 7", 600, True),
        ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", 600, True),
        ("[2] epoch 1", 7, False),
    ],
)
def test_an_mpich_that_waits_on_after_a_rank_failed_is_ended(
    tmp_path: Path, line: str, seconds: int, is_ended: bool
) -> None:
    (tmp_path / "mpirun").write_text(_HYDRA)
    (tmp_path / "mpirun").chmod(0o755)
    (tmp_path / "report").write_text("[1] muster: rank 1 on node1 ended with status 3\n")  # of the attempt before
    script = f"""{compose(("mpirun", "hydra_watch"))}
muster_mpirun_kind='HYDRA build details'
muster_watch_hydra report
./mpirun '{line}' {seconds}
echo $?
kill "$muster_hydra_watcher" 2>/dev/null
"""
    done = run(["bash", "-c", script], cwd=tmp_path, timeout_s=60)

    assert done.stdout == ("143\n" if is_ended else "0\n"), done.stderr
    assert ("mpirun waited on after a rank had failed: it was ended" in done.stderr) == is_ended


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        (
            ["0: ok", "1: ValueError: b\tad (x)", "srun: error: node2: task 1: Exited with exit code 7"],
            (EndCause.RANK, 1, "node2", "ValueError: b ad (x)"),
        ),
        (["srun: error: Node failure on node4"], (EndCause.NODE, None, "node4", "")),
        (["0: ValueError: bad", "nothing of Slurm's"], (None, None, None, "")),
    ],
    ids=["a rank", "a node", "neither"],
)
def test_the_line_of_an_end_holds_the_kind_of_its_cause(
    tmp_path: Path, lines: list[str], end: tuple[EndCause | None, int | None, str | None, str]
) -> None:
    words = ("file=job.sh", f"run={tmp_path}", f"logs={tmp_path}/logs", "nodes=2", "tasks=2", "lines=labelled")
    supervisor = Supervisor(Rules(words, {"SLURM_JOB_ID": "7"}), {"SLURM_JOB_NODELIST": "node1,node2"})
    running, first = _ended(lines, 7)
    supervisor.running = running
    supervisor.state = LifeState(hosts=running.hosts, attempt=1)
    supervisor._do_note_end(NoteEnd(1, "end", first, "that was allowed 0 times"))

    (read,) = read_ends(tmp_path)
    assert (read.kind, read.rank, read.host, read.error_line) == end
    assert (read.number, read.decision, read.done) == (1, "end", "not started again: that was allowed 0 times")


@pytest.mark.parametrize(
    ("tells", "words", "cause"),
    [
        (
            "srun",
            "ConnectionError: reset",
            "rank 1 on node2 ended with status 0, and then rank 0 on node1: exit status 1",
        ),
        ("srun", "ValueError: 7", "rank 0 on node1: exit status 1"),
    ],
)
def test_who_left_before_a_connection_was_lost_is_named(tmp_path: Path, tells: str, words: str, cause: str) -> None:
    (tmp_path / "1.0").write_text("0 begins\n")
    (tmp_path / "1.1").write_text("1 begins\n1 0\n")
    lines = [f"0: {words}", "srun: error: node1: task 0: Exited with exit code 1"]
    running, first = _ended(lines, 1, tells, str(tmp_path))

    assert running.cause_text(first) == f"{cause} ({words})"


def test_a_rank_that_srun_could_not_start_is_the_first_that_failed() -> None:
    line = "srun: error: tasks 1,3 launch failed: Slurmd could not connect IO"
    running, first = _ended(["0: NameError: of the others", line, "srun: error: node1: task 0: Terminated"], 1)

    assert (first.kind, first.rank, first.status) == ("rank", 1, 1)
    words = "srun could not start it: Slurmd could not connect IO"
    assert running.cause_text(first) == f"rank 1: exit status 1 ({words})"


@pytest.mark.parametrize(
    ("begun", "place"), [("1 begins\n", "rank 1 on node2"), ("", "rank 1")], ids=["its node is written", "it is not"]
)
def test_a_rank_whose_end_nobody_tells_is_not_said_to_have_left(tmp_path: Path, begun: str, place: str) -> None:
    (tmp_path / "1.0").write_text("0 begins\n0 1\n")
    (tmp_path / "1.1").write_text(begun)
    lines = ["0: ConnectionError: reset", "srun: error: node1: task 0: Exited with exit code 1"]
    running, _ = _ended(lines, 1, "srun", str(tmp_path))
    cause = FirstCause("rank", 1, words="nobody reports its end")

    text = running.cause_text(cause)
    assert text == f"{place}: nobody reports its end; rank 0 on node1: exit status 1 (ConnectionError: reset)"


@pytest.mark.parametrize(
    ("status", "words"),
    [(128, "exit status 128"), (129, "ended by SIGHUP"), (137, "ended by SIGKILL"), (255, "exit status 255")],
)  # fmt: skip
def test_an_exit_status_in_words(status: int, words: str) -> None:
    assert end_words(status) == words


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1,0]<stderr>:ConnectionError[1,0]<stderr>:: refused", "ConnectionError: refused"),
        ("0: [rank0]: RuntimeError: step 7", "RuntimeError: step 7"),
        ("0: ValueError: 0: is no rate", "ValueError: 0: is no rate"),
        ("[0] ValueError: [0] is no rate", "ValueError: [0] is no rate"),
    ],
)
def test_the_tag_of_a_launcher_or_of_torch_is_no_part_of_a_rank_s_words(line: str, said: str) -> None:
    assert last_error([line], 0, True) == said
