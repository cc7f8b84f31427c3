"""A log of any kind and size: the first cause is named with its line and rank, and nothing else is needed."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from muster.follow.first_failure import failure_in
from muster.follow.known_causes import explain, read_log
from muster.model.failure import Failure
from plugins.forked import run_muster

MUSTER = [sys.executable, "-m", "muster", "check", "--log"]
ECC = b"torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"
WATCHDOG = b"[rank0]: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1) ran for 600061 ms"


def told(path: Path | str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = ["check", "--log", str(path), *words]
    done = run_muster(argv, env=os.environ, stdin=os.fsdecode(given))
    return subprocess.CompletedProcess(argv, done.status, done.stdout.encode(), done.stderr.encode())


def test_the_first_cause_is_named_with_line_rank_and_remedy(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_bytes(b"0: epoch 1\n1: " + WATCHDOG + b"\n3: " + ECC + b"\n2: " + WATCHDOG + b"\n")
    done = told(log)
    assert done.returncode == 1
    first, where, hint = done.stdout.decode().splitlines()[:3]
    assert first == "first: the GPU's memory is faulty"
    assert where.strip().startswith("line 3, rank 3: torch.AcceleratorError")
    assert "exclude the node (--exclude)" in hint
    assert b"after it: a collective did not end in time" in done.stdout


def test_json_has_the_documented_keys(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_bytes(ECC + b"\n")
    document = json.loads(told(log, "--json").stdout)
    assert set(document) == {"lines", "first_failure", "causes", "transports", "findings"}
    assert document["causes"][0]["id"] == "cuda-ecc"
    assert document["causes"][0]["source"]


def test_a_log_without_a_known_error_says_so(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_text("all is well\n")
    done = told(log)
    assert done.returncode == 0
    assert done.stdout.startswith(b"none of 1")


def test_standard_input_is_read() -> None:
    assert told("-", given=ECC + b"\n").returncode == 1


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 0),
        (bytes(range(256)) * 1000, 0),
        (bytes(range(256)) * 1000 + b"\n" + ECC + b"\n", 1),
        (b"\x1b[31m" + ECC + b"\x1b[0m\r\n", 1),
        (b"x" * 3_000_000 + b"\n" + ECC, 1),
        ("Schleife über Größen: \udcff".encode(errors="surrogateescape") + b"\n" + ECC, 1),
        (ECC.replace(b" ", b"\r"), 0),
    ],
    ids=["empty", "binary", "binary-and-an-error", "colours", "one-long-line", "not-utf8", "progress-bars"],
)
def test_whatever_a_log_holds_it_is_read(tmp_path: Path, content: bytes, status: int) -> None:
    log = tmp_path / "out.log"
    log.write_bytes(content)
    done = told(log)
    assert done.returncode == status, done.stderr
    assert b"Traceback" not in done.stderr
    assert not any(byte < 32 for byte in done.stdout.replace(b"\n", b"")), "no control character reaches the terminal"


@pytest.mark.parametrize(("name", "says"), [("missing.log", b"No such file"), (".", b"Is a directory")])
def test_what_is_no_file_is_refused_with_a_hint(tmp_path: Path, name: str, says: bytes) -> None:
    done = told(tmp_path / name)
    assert done.returncode == 2
    assert says in done.stderr
    assert b"hint: " in done.stderr


def test_an_option_of_a_run_beside_a_log_is_refused(tmp_path: Path) -> None:
    done = told(tmp_path / "x", "-N", "2")
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("size", "room"),
    [
        pytest.param(128 << 20, 120 << 20, marks=pytest.mark.wide),
        pytest.param(1 << 30, 600 << 20, marks=pytest.mark.long),
    ],
)
def test_memory_is_bounded_whatever_the_size(tmp_path: Path, size: int, room: int) -> None:
    """Much of nothing, and the error behind it: read with less memory than the file has."""
    log = tmp_path / "out.log"
    with log.open("wb") as file:
        file.truncate(size)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + ECC + b"\n")
    done = subprocess.run(
        [*MUSTER, str(log)],
        capture_output=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (room, room)),
    )
    assert done.returncode == 1, done.stderr
    assert b"the GPU's memory is faulty" in done.stdout


@pytest.mark.wide
def test_an_error_across_the_border_of_two_pieces_is_found() -> None:
    for around in range(1, 120):
        filling = b"x" * ((1 << 20) - around) + b"\n" if around > 1 else b""
        assert read_log(io.BytesIO(filling + ECC + b"\n")).causes


def test_a_thousand_ranks_that_complain_are_one_line() -> None:
    lines = [b"%d: %s" % (rank, WATCHDOG) for rank in range(1024)]
    random.Random(4).shuffle(lines)  # noqa: S311
    report = read_log([*lines, b"7: " + ECC])
    assert [each.signature.id for each in report.causes] == ["cuda-ecc", "torch-watchdog"]
    assert "1000+ times" in "\n".join(report.lines())


# --- what launchers and Muster itself say ---------------------------------------------------------------------------

# A job under srun whose rank 2 leaves with 6, as Slurm 22.05 reports it.
EXIT_6 = b"""\
0: step 1
2: about to leave
srun: error: node2: task 2: Exited with exit code 6
srun: Terminating StepId=7.0
slurmstepd: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-11-21T10:00:00 ***
srun: error: node1: tasks 0-1: Terminated
srun: error: node2: task 3: Terminated
srun: Force Terminated StepId=7.0
"""


def test_the_rank_that_srun_names_is_the_cause_and_not_that_the_step_was_ended(tmp_path: Path) -> None:
    log = tmp_path / "batch.log"
    log.write_bytes(EXIT_6)
    done = told(log)
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "first: rank 2 on node2: exit status 6"
    assert lines[1].strip() == "srun: error: node2: task 2: Exited with exit code 6"
    assert "muster logs JOB --rank 2" in lines[2]
    assert any(line.startswith("after it: the job, its script or a step was told to end") for line in lines)
    assert json.loads(told(log, "--json").stdout)["first_failure"]["ranks"] == [2]


def test_musters_own_error_is_the_cause_with_its_own_hint(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    log.write_bytes(
        b"0: muster: error: port 29517 of node1 is taken\n1: waiting\n0: \n"
        b"0: hint: leave --master-port out, or name another\n"
        b"srun: error: node1: task 0: Exited with exit code 2\n"
        b"slurmstepd: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-11-21T10:00:00 ***\n"
    )
    lines = told(log).stdout.decode().splitlines()
    assert lines[0] == "first: port 29517 of node1 is taken"
    assert lines[2].strip() == "hint: leave --master-port out, or name another"
    assert "failed: rank 0 on node1: exit status 2" in lines


def test_a_known_error_stands_before_the_rank_that_srun_names() -> None:
    text = "\n".join(read_log([b"2: " + ECC, *EXIT_6.splitlines()]).lines())
    assert text.startswith("first: the GPU's memory is faulty")
    assert "failed: rank 2 on node2: exit status 6" in text


def test_the_daemon_that_mpirun_lost_is_named() -> None:
    # https://github.com/open-mpi/ompi/issues/6618
    said = b"""\
ORTE has lost communication with a remote daemon.

HNP daemon : [[11377,0],0] on node i39030a4a38d4a3abcb17e488a3141ef-mpijob-0-launcher-ksczd
Remote daemon: [[11377,0],1] on node i39030a4a38d4a3abcb17e488a3141ef-mpijob-0-worker-0
"""
    report = read_log(said.splitlines())
    assert report.failure is not None
    assert report.failure.host == "i39030a4a38d4a3abcb17e488a3141ef-mpijob-0-worker-0"
    assert "mpirun lost its daemon on i39030a4a38d4a3abcb17e488a3141ef-mpijob-0-worker-0" in report.causes[0].cause


def test_a_daemon_on_another_node_is_no_cause_where_slurm_names_the_node_that_failed() -> None:
    """With its link cut, node2's daemon and that of node1 lose each other: Open MPI 4.1 names node1."""
    told = """\
ORTE has lost communication with a remote daemon.
  HNP daemon   : [[5175,0],0] on node login
  Remote daemon: [[5175,0],1] on node node1
salloc: error: Node failure on node2""".splitlines()
    failure = failure_in("\n".join(told), "mpirun")
    report = read_log([line.encode() for line in told])

    assert failure is not None
    assert failure.host == "node2"
    assert report.failure == failure
    assert [cause for cause in report.causes if "node1" in cause.cause] == []
    for lines, blamed, known in ((told, failure, "a node of the job failed"), (told[:3], None, "its daemon on node1")):
        cause = explain(lines, blamed)
        assert cause is not None
        assert known in cause.cause


def test_of_sigkill_memory_is_the_first_guess() -> None:
    text = "\n".join(read_log([b"srun: error: node3: task 5: Killed"]).lines())
    assert text.startswith("first: rank 5 on node3: ended by SIGKILL")
    assert "memory" in text


def test_srun_s_task_is_no_rank_where_torchrun_runs() -> None:
    lines = [b"W1121 torch.distributed.elastic.agent.server.api: x", b"srun: error: node3: task 1: Killed"]
    failure = read_log(lines).failure
    assert failure is not None
    assert failure.tasks == ()
    assert failure.sentence.startswith("torchrun itself on node3")


# --- networks: lines of public logs ---------------------------------------------------------------------------------

# https://github.com/aws/aws-ofi-nccl/issues/715, https://github.com/aws/aws-ofi-nccl/issues/161
EFA = """\
algo-1:18059:18146 [2] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.11.0-aws
algo-1:18059:18146 [2] NCCL INFO NET/OFI Setting provider_filter to efa
algo-1:18059:18146 [2] NCCL INFO NET/OFI Selected Provider is efa
algo-1:18059:18146 [2] NCCL INFO Using network AWS Libfabric
algo-1:18059:20782 [2] NCCL INFO Channel 04/1 : 15[7] -> 2[2] [receive] via NET/AWS Libfabric/1/GDRDMA/Shared
algo-1:18059:20782 [2] NCCL INFO Channel 00/1 : 2[2] -> 5[5] via P2P/CUMEM/read
"""
# https://github.com/NVIDIA/nccl-tests/issues/182 (InfiniBand between testgpu1 and testgpu2)
IB = """\
testgpu2:3255:3255 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or \
directory No plugin found (libnccl-net.so), using internal implementation
testgpu2:3255:3255 [1] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
testgpu2:3255:3262 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ibs65:10.10.10.101<0>
testgpu2:3255:3262 [1] NCCL INFO Using non-device net plugin version 0
testgpu2:3255:3262 [1] NCCL INFO Using network IB
"""
# https://github.com/NVIDIA/nccl-tests/issues/166: two hosts, and no libibverbs
TCP = """\
ubuntu:9621:9621 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open \
shared object file: No such file or directory
ubuntu:39964:40050 [6] NCCL INFO Failed to open libibverbs.so[.1]
ubuntu:39964:40050 [6] NCCL INFO NET/Socket : Using [0]ens4:10.0.0.1<0>
ubuntu:39964:40050 [6] NCCL INFO Using network Socket
ubuntu:39964:40050 [6] NCCL INFO comm 0x1 rank 6 nRanks 16 nNodes 2 localRanks 8 localRank 6 MNNVL 0
"""
# https://github.com/NVIDIA/nccl/issues/1653: one machine
ALONE = """\
DESKTOP-1CE5APL:1689:2800 [0] NCCL INFO Failed to open libibverbs.so[.1]
DESKTOP-1CE5APL:1689:2800 [0] NCCL INFO NET/Socket : Using [0]eth0:172.21.131.59<0>
DESKTOP-1CE5APL:1689:2800 [0] NCCL INFO Using non-device net plugin version 0
DESKTOP-1CE5APL:1689:2800 [0] NCCL INFO Using network Socket
DESKTOP-1CE5APL:1689:2800 [0] NCCL INFO comm 0x562f744f9960 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
"""
NETWORKS = {
    "EFA": (EFA, 0, "network: AWS Libfabric; plugin aws-ofi-nccl 1.11.0-aws; provider efa; GPU-direct"),
    "InfiniBand": (IB, 0, "network: IB; cards mlx5_0 (IB)"),
    "TCP between nodes": (TCP, 1, "broken: transport: the ranks of different nodes speak over TCP"),
    "one machine": (ALONE, 0, "network: Socket"),
    "libfabric over TCP": (
        EFA.replace("Provider is efa", "Provider is tcp;ofi_rxm"),
        1,
        "broken: transport: the ranks of different nodes speak over libfabric's tcp;ofi_rxm",
    ),
    "no GPU-direct": (EFA.replace("/GDRDMA/Shared", ""), 0, "AWS Libfabric without GPU-direct"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_of_a_public_log_is_judged(name: str) -> None:
    log, status, says = NETWORKS[name]
    report = read_log([line.encode() for line in log.splitlines()])
    text = "\n".join(report.lines())
    assert says in text
    assert int(report.is_broken) == status, text
    if not status:
        assert "first:" not in text


def test_what_explains_tcp_is_told_beside_it() -> None:
    text = "\n".join(read_log([line.encode() for line in TCP.splitlines()]).lines())
    assert "NCCL found no libibverbs" in text


@pytest.mark.parametrize("chunk", [4, 64, 1 << 20])
def test_a_line_has_its_number_wherever_the_log_was_cut_in_reading(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    from muster.follow import known_causes

    monkeypatch.setattr(known_causes, "_CHUNK_BYTES", chunk)
    text = b"".join(b"%d: epoch\n" % number for number in range(40)) + b"1: " + ECC + b"\n" + b"more\n" * 9
    report = read_log(io.BytesIO(text))
    assert [cause.line for cause in report.causes] == [41]
    assert report.lines_read == 50


def test_a_line_without_end_is_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    from muster.follow import known_causes

    monkeypatch.setattr(known_causes, "_CHUNK_BYTES", 8)
    monkeypatch.setattr(known_causes, "_LONGEST_LINE_BYTES", 128)
    report = read_log(io.BytesIO(b"x" * 999 + b"\n1: " + ECC))
    assert [cause.line for cause in report.causes] == [2]


@pytest.mark.parametrize(
    ("tasks", "status", "is_told"), [((0,), 1, False), ((0,), 143, True), ((), 1, True), ((0,), None, True)]
)
def test_a_rank_that_ended_by_itself_was_not_told_to_end(
    tasks: tuple[int, ...], status: int | None, is_told: bool
) -> None:
    said = ["ValueError: 3", "slurmstepd: error: *** STEP 4.0 ON node1 CANCELLED AT 2026-11-28T07:16:01 ***"]

    assert (explain(said, Failure("a rank failed", "node1", tasks, status, "")) is not None) == is_told
