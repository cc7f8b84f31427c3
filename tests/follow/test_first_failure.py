"""Guards which rank is said to have failed first: recorded reports of torchrun, Open MPI, MPICH and srun."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.follow.first_failure import failure_in, first_failure, first_in
from muster.follow.watch import JobOutput
from muster.launchers import by_agents_first
from muster.launchers.mpirun import mpirun_failure
from muster.launchers.torchrun import torchrun_failure

SAMPLES = Path(__file__).resolve().parents[1] / "samples"


def lines(name: str) -> list[str]:
    """The lines of a recorded report."""
    return (SAMPLES / "launchers" / f"{name}.log").read_text().splitlines()


def in_run(folder: Path, **recorded: str) -> JobOutput:
    """The output of a run whose logs are these recordings."""
    for name, source in recorded.items():
        copyfile(SAMPLES / source, folder / f"{name}.log")
    return JobOutput(folder)


@pytest.mark.parametrize(("kind", "status"), [("exit", 7), ("kill", 137)])
def test_torchrun_names_the_rank_although_srun_saw_an_agent(kind: str, status: int) -> None:
    found = torchrun_failure(lines(f"torchrun-{kind}-node2"))
    assert found is not None
    assert (found[1].tasks, found[1].host, found[1].status) == ((3,), "node2", status)


def test_an_agent_that_was_ended_reports_no_failure_of_a_rank() -> None:
    assert torchrun_failure(lines("torchrun-exit-node1")) is None


def test_the_report_of_a_rank_that_torchrun_ended_is_no_cause(tmp_path: Path) -> None:
    output = in_run(
        tmp_path,
        node1="launchers/torchrun-exit-node1.log",
        node2="launchers/torchrun-exit-node2.log",
        batch="srun/22.05-all.txt",
    )
    ended = (
        (tmp_path / "node2.log").read_text().replace("exitcode  : 7", "exitcode  : -15").replace("21:08:22", "21:08:20")
    )
    (tmp_path / "node3.log").write_text(ended.replace("node2", "node3"))
    found = first_failure(output)
    assert found is not None
    assert (found.host, found.status) == ("node2", 7)


@pytest.mark.parametrize(
    ("recorded", "tasks", "host", "status"),
    [
        ("openmpi-exit", (3,), None, 7),
        ("openmpi-kill", (3,), "node4", 137),
        ("mpich-kill", (), "vm", 137),
    ],
)
def test_mpirun_names_what_it_knows(recorded: str, tasks: tuple[int, ...], host: str | None, status: int) -> None:
    found = mpirun_failure(lines(recorded))
    assert found is not None
    assert (found.tasks, found.host, found.status) == (tasks, host, status)


def test_a_report_of_mpirun_names_a_rank_where_the_launcher_is_not_known() -> None:
    found = first_in([lines("openmpi-exit")], by_agents_first())
    assert found is not None
    assert (found.tasks, found.status) == ((3,), 7)


def test_srun_is_believed_where_no_launcher_stands_in_between(tmp_path: Path) -> None:
    found = first_failure(in_run(tmp_path, batch="srun/24.11-exit.txt"))
    assert found is not None
    assert (found.tasks, found.status) == ((3,), 7)


@pytest.mark.parametrize(("launcher", "status"), [("srun", 1), ("torchrun", 7), ("mpirun+torchrun", 7), (None, 7)])
def test_the_one_that_started_the_ranks_is_asked_first(tmp_path: Path, launcher: str | None, status: int) -> None:
    output = in_run(tmp_path, node2="launchers/torchrun-exit-node2.log")
    (tmp_path / "batch.log").write_text("srun: error: node2: task 1: Exited with exit code 1\n")
    found = first_failure(replace(output, launcher=launcher))
    assert found is not None
    assert found.status == status


@pytest.mark.parametrize(
    ("launcher", "ending", "node", "sentence"),
    [
        ("torchrun", "Exited with exit code 1", "node14", "node14 failed"),
        ("torchrun", "Killed", "node14", "node14 failed"),  # Slurm ends the others, when it has lost a node
        ("torchrun", "Exited with exit code 2", "node14", "torchrun itself on node16: exit status 2"),
        ("torchrun", "Segmentation fault", "node14", "torchrun itself on node16: ended by SIGSEGV"),
        ("torchrun", "Exited with exit code 1", "node16", "torchrun itself on node16: exit status 1"),
        ("torchrun", "Exited with exit code 1", "", "torchrun itself on node16: exit status 1"),
        ("srun", "Exited with exit code 1", "node14", "rank 2 on node16: exit status 1"),
    ],
)
def test_an_agent_that_lost_the_store_of_a_dead_node_is_not_the_first(
    launcher: str, ending: str, node: str, sentence: str
) -> None:
    said = [f"srun: error: node16: task 2: {ending}", "srun: error: node15: task 1: Terminated"]
    failure = failure_in("\n".join([*said, f"srun: error: Node failure on {node}" if node else ""]), launcher)

    assert failure is not None
    assert failure.sentence == sentence


def test_an_agent_that_could_not_start_is_no_rank(tmp_path: Path) -> None:
    (tmp_path / "batch.log").write_text("srun: error: node2: task 1: Exited with exit code 1\n")
    found = first_failure(JobOutput(tmp_path, launcher="torchrun"))
    assert found is not None
    assert (found.sentence, found.tasks, found.status) == ("torchrun itself on node2: exit status 1", (), 1)


def test_a_rank_that_prints_a_report_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "node1.log").write_text(
        "0: srun: error: node1: task 3: Killed\n1: Root Cause (first observed failure):\n"
    )
    assert first_failure(JobOutput(tmp_path)) is None


def test_the_node_that_slurm_names_is_believed_before_a_daemon_that_mpirun_lost() -> None:
    """With its link cut, node2's daemon and that of node1 lose each other: Open MPI 4.1 names node1."""
    told = """\
ORTE has lost communication with a remote daemon.
  HNP daemon   : [[5175,0],0] on node login
  Remote daemon: [[5175,0],1] on node node1
"""
    failure = failure_in(f"{told}salloc: error: Node failure on node2\n", "mpirun")
    assert failure is not None
    assert failure.sentence == "node2 failed"
    alone = failure_in(told, "mpirun")
    assert alone is not None
    assert alone.host == "node1"


_PEER_GONE = "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.4]:48317"
_REMOTE_ERROR = (
    "DistBackendError: NCCL error in: X.cpp:1, remote process exited or there was a network error, NCCL version"
)
_BATCH_OF_DEAD_NODE = """\
srun: error: node4: task 2: Exited with exit code 1
srun: error: node1: task 0: Exited with exit code 1
slurmstepd-node1: error: *** JOB 108 ON node1 CANCELLED AT 2026-11-23T18:57:15 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
srun: error: Node failure on node3
"""  # noqa: E501 - as Slurm 22.05 wrote it


@pytest.mark.parametrize(
    ("said", "batch", "sentence"),
    [
        (_PEER_GONE, _BATCH_OF_DEAD_NODE, "node3 failed"),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", _BATCH_OF_DEAD_NODE, "node3 failed"),
        (_REMOTE_ERROR, _BATCH_OF_DEAD_NODE, "node3 failed"),
        (_PEER_GONE, _BATCH_OF_DEAD_NODE.rpartition("srun")[0], "a node failed"),
        # An error of the rank's own explains its end, whatever it saw beside it.
        ("ValueError: 3", _BATCH_OF_DEAD_NODE, "rank 2 on node4: exit status 1"),
        (
            f"{_PEER_GONE}\n2: torch.OutOfMemoryError: CUDA out of memory.",
            _BATCH_OF_DEAD_NODE,
            "rank 2 on node4: exit status 1",
        ),
        # No node failed; or the rank's own one did, after the rank.
        (_PEER_GONE, _BATCH_OF_DEAD_NODE.splitlines()[0], "rank 2 on node4: exit status 1"),
        (_PEER_GONE, _BATCH_OF_DEAD_NODE.replace("on node3", "on node4"), "rank 2 on node4: exit status 1"),
    ],
)
def test_a_dead_node_comes_before_the_ranks_that_lost_their_peer(
    tmp_path: Path, said: str, batch: str, sentence: str
) -> None:
    (tmp_path / "node4.log").write_text(f"2: {said}\n")
    (tmp_path / "batch.log").write_text(batch)
    found = first_failure(JobOutput(tmp_path, launcher="srun"))
    assert found is not None
    assert found.sentence == sentence


_TWO_ENDS = "srun: error: node4: task 2: {}\nsrun: error: node1: tasks 0-1: Exited with exit code 3\n"
_ENDED = _TWO_ENDS.replace("Exited with exit code 3", "Terminated")
_OF_RANK_2 = "rank 2 on node4: exit status 1"
_SAID_BY_SHELLS = (
    "2: {}\n2: muster: rank 2 on node4 ended with status 1\n1: muster: rank 1 on node1 ended with status 3\n"
)


@pytest.mark.parametrize(
    ("launcher", "late", "batch", "sentence"),
    [
        ("srun", "1: ValueError: 3", _TWO_ENDS, "rank 1 on node1: exit status 3"),
        ("srun", "1: step 3", _TWO_ENDS, "rank 1 on node1: exit status 3"),
        ("srun", f"1: {_PEER_GONE}", _TWO_ENDS, _OF_RANK_2),
        ("srun", "1: step 3", _ENDED, _OF_RANK_2),
        ("srun", "1: step 3", _TWO_ENDS.replace("Exited with exit code 3", "Killed"), _OF_RANK_2),
        ("srun", "1: ValueError: 3", _ENDED, "rank 1 on node1: ValueError, and ended with the others"),
        ("srun", "1: [rank1]: a.b.OwnException", _ENDED, "rank 1 on node1: OwnException, and ended with the others"),
        ("srun", "1: a.SIGTERMException", _ENDED, _OF_RANK_2),
        ("mpirun", f"1: step 3\n{_SAID_BY_SHELLS}", "", "rank 1 on node1: exit status 3"),
    ],
)  # fmt: skip
def test_a_rank_that_ends_slowly_comes_before_those_that_missed_it(
    tmp_path: Path, launcher: str, late: str, batch: str, sentence: str
) -> None:
    """Seen with Lightning: the rank with the error is heard of after one that lost its connection to it."""
    logs = [f"0: {_PEER_GONE}\n{late}\n", f"2: {_PEER_GONE}\n", batch.format("Exited with exit code 1")]
    for name, log in zip(["node1", "node4", "batch"], logs):
        (tmp_path / f"{name}.log").write_text(log)
    for found in (first_failure(JobOutput(tmp_path, launcher=launcher)), failure_in("".join(logs), launcher)):
        assert found is not None
        assert found.sentence == sentence


def test_the_error_of_a_rank_of_another_agent_comes_before_those_that_missed_it(tmp_path: Path) -> None:
    """Seen on a lab: the agents report both in one second."""
    for rank, words in enumerate(["ConnectionResetError: [Errno 104] Connection reset by peer", "ValueError: 3"]):
        report = f"  time      : 10:36:39\n  host      : node{rank}\n  rank      : {rank}\n  exitcode  : 1\n"
        log = f"{rank}: {words}\nRoot Cause (first observed failure):\n[0]:\n{report}"
        (tmp_path / f"node{rank}.log").write_text(log)
    found = first_failure(JobOutput(tmp_path, launcher="torchrun"))
    assert found is not None
    assert found.sentence == "rank 1 on node1: exit status 1"


def test_what_slurm_starts_for_mpirun_is_a_daemon_and_no_rank() -> None:
    failure = failure_in("srun: error: node2: task 1: Exited with exit code 2", "mpirun")
    assert failure is not None
    assert (failure.tasks, failure.sentence) == ((), "mpirun's daemon itself on node2: exit status 2")


def test_a_run_without_output_has_no_failure(tmp_path: Path) -> None:
    assert first_failure(JobOutput(tmp_path / "not there")) is None


@given(st.lists(st.text(max_size=80), max_size=10))
def test_any_text_is_read_without_an_error(said: list[str]) -> None:
    torchrun_failure(["Root Cause (first observed failure):", *said])
    mpirun_failure(["  Process name: [[1,1],3]", *said])


def test_roles_without_a_folder_have_no_failure_that_is_known() -> None:
    assert first_failure(JobOutput(None, roles=(("trainer", JobOutput(None)),))) is None
