"""Ranks on this machine: ended together, labelled, the first failure named, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.rank.vendors import VENDORS
from muster.runner import PIPE, ProgramResult, run, start
from plugins.forked import run_muster

MUSTER = (sys.executable, "-m", "muster")


def muster_run(*words: str, stdin: str | None = None, **environment: str) -> ProgramResult:
    return run_muster(["run", "--here", *words], stdin=stdin, env={**os.environ, **environment})


def test_every_line_carries_its_rank_and_nothing_else_is_changed() -> None:
    result = muster_run("--ntasks-per-node", "3", "--", "sh", "-c", 'printf "a b\\n  c"; echo "err $RANK" >&2')

    assert sorted(result.stdout.splitlines()) == sorted(
        f"{rank}: {text}" for rank in range(3) for text in ("a b", "  c")
    )
    assert {line for line in result.stderr.splitlines() if "err" in line} == {
        f"{rank}: err {rank}" for rank in range(3)
    }


def test_the_output_of_one_rank_is_byte_exact() -> None:
    assert muster_run("--", "printf", "a\\nb").stdout == "a\nb"


def test_a_rank_has_no_descriptor_that_muster_itself_was_given(tmp_path: Path) -> None:
    """A pipe that a rank held open would never come to its end for whoever reads it."""
    with (tmp_path / "given").open("w") as given:
        listed = run([*MUSTER, "run", "--here", "--", "ls", "/proc/self/fd"], pass_fds=[given.fileno()])

    assert listed.stdout.split() == ["0", "1", "2", "3"]  # the last is the folder that ls reads


def test_a_rank_starts_in_its_folder_and_muster_stays_in_its_own(tmp_path: Path) -> None:
    program = (
        "import os, sys; from muster.act.supervise import Member, supervise; "
        "supervise([Member(0, ('pwd',), {**os.environ, 'PWD': ''})], label=False, grace_s=1.0, "
        "working_directory=sys.argv[1]); print(os.getcwd(), len(os.listdir('/proc/self/fd')))"
    )
    result = run([sys.executable, "-u", "-c", program, str(tmp_path)], cwd="/")

    assert result.stdout == f"{tmp_path}\n/ 4\n", result.stderr


def test_the_first_rank_that_failed_is_named_and_gives_the_status() -> None:
    result = muster_run("--ntasks-per-node", "3", "--", "sh", "-c", '[ "$RANK" = 1 ] && exit 7; exec sleep 60')

    assert result.status == 7
    assert "rank 1 ended with status 7" in result.stderr


@pytest.mark.parametrize(
    ("number", "status", "hint"), [("KILL", 137, "memory"), ("SEGV", 139, "PYTHONFAULTHANDLER=1"), ("TERM", 143, "")]
)
def test_a_rank_that_dies_of_a_signal_gives_128_and_its_number(number: str, status: int, hint: str) -> None:
    result = muster_run("--ntasks-per-node", "2", "--", "sh", "-c", f"kill -{number} $$; sleep 60")

    assert result.status == status
    assert f"ended with status {status} (ended by SIG{number}); the others were ended" in result.stderr
    assert ("muster: hint: " in result.stderr) == bool(hint)
    assert hint in result.stderr


@pytest.mark.parametrize(
    ("line", "cause", "remedy"),
    [
        ("The server socket has failed to bind to [::]:29500", "another program holds the port", "omit --master-port"),
        ("PermissionError: [Errno 13] Permission denied: '/x/ckpt.pt'", "may not open '/x/ckpt.pt'", "ls -ld"),
    ],
)
def test_a_known_error_of_the_rank_that_failed_first_is_explained(line: str, cause: str, remedy: str) -> None:
    result = muster_run("--ntasks-per-node", "2", "--", "sh", "-c", 'echo "$0" >&2; exit 1', line)

    assert re.search(f"\nmuster: known: .*{re.escape(cause)}", result.stderr), result.stderr
    assert re.search(f"\nmuster: hint: .*{re.escape(remedy)}", result.stderr), result.stderr


@pytest.mark.torch
@pytest.mark.parametrize(("end", "status"), [("exit 7", 7), ("kill -SEGV $$", 139)])
def test_under_torchrun_too_the_status_is_the_ranks_and_not_the_agents(end: str, status: int) -> None:
    ranks = ("sh", "-c", f'[ "$RANK" = 1 ] && {{ {end}; }}; exec sleep 60')
    size = ("--launcher", "torchrun", "--ntasks-per-node", "2", "--grace", "2")
    result = muster_run(*size, "--", *ranks, PATH=path_with())  # its python has torch

    assert result.status == status, result.stderr
    assert f"rank 1 ended with status {status}" in result.stderr
    assert "Root Cause" in result.stderr


def test_a_known_error_of_a_single_rank_is_explained_too() -> None:
    """Seen on a real GPU: the traceback stood in the log, and nobody named the cause."""
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB"
    result = muster_run("--", "sh", "-c", f"echo '{line}' >&2; exit 1")

    assert f"\n{line}\n" in f"\n{result.stderr}"
    assert "muster: known: the GPU's memory is full" in result.stderr


@pytest.mark.parametrize(("given", "seen"), [({}, ["0", "1"]), ({"CUDA_VISIBLE_DEVICES": "3,5"}, ["3", "5"])])
def test_each_rank_of_this_machine_sees_its_own_gpu_where_that_is_asked(
    given: dict[str, str], seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on a real GPU: nothing numbers the GPUs of a machine without Slurm, so each rank saw all of them."""
    monkeypatch.setattr("muster.look.probe._count_gpus", lambda *_: 2)
    monkeypatch.setattr("muster.act.launch_here.vendor_here", lambda: VENDORS[0])
    words = ("--ntasks-per-node", "2", "-g", "2", "--visibility", "one", "--", "printenv", "CUDA_VISIBLE_DEVICES")
    result = muster_run(*words, **given)

    assert sorted(result.stdout.splitlines()) == [f"{rank}: {device}" for rank, device in enumerate(seen)], (
        result.stderr
    )


def test_ranks_that_ask_for_no_gpu_get_no_number_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty CUDA_VISIBLE_DEVICES would hide every GPU of the machine."""
    monkeypatch.setattr("muster.act.launch_here.vendor_here", lambda: VENDORS[0])
    result = muster_run("-g", "0", "--visibility", "one", "--", "sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-unset}")

    assert result.stdout == "unset\n", result.stderr


def test_ranks_that_ignore_the_request_to_end_are_killed_after_the_grace_time() -> None:
    stubborn = 'trap "" TERM; [ "$RANK" = 1 ] && exit 5; while :; do sleep 0.1; done'

    assert muster_run("--grace", "1", "--ntasks-per-node", "3", "--", "sh", "-c", stubborn).status == 5


def test_only_rank_0_reads_the_standard_input() -> None:
    result = muster_run("--ntasks-per-node", "3", "--", "cat", stdin="hello\n")

    assert result.stdout == "0: hello\n"


def test_ten_thousand_lines_of_each_rank_all_arrive_in_their_order() -> None:
    result = muster_run("--ntasks-per-node", "4", "--", "seq", "10000")

    for rank in range(4):
        mine = [line.partition(": ")[2] for line in result.stdout.splitlines() if line.startswith(f"{rank}: ")]
        assert mine == [str(number) for number in range(1, 10001)]


def _wait_for(path: Path, count: int) -> None:
    for _ in range(600):
        if sum(each.stat().st_size > 0 for each in path.iterdir()) == count:  # each has written its line
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never held {count} files with a line")


def _is_alive(pid: str) -> bool:
    """Whether the process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _left_alive(folder: Path) -> list[Path]:
    """Return the processes that still run; one that was killed may need a turn on a busy core to go."""
    deadline = time.monotonic() + 10
    while True:
        alive = [child for child in folder.iterdir() if _is_alive(child.read_text().strip())]
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.05)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_every_rank_and_its_children(tmp_path: Path, number: signal.Signals, status: int) -> None:
    script = 'sleep 300 & echo $! >"$0/$RANK"; wait'
    process = start(
        [*MUSTER, "run", "--here", "--grace", "2", "--ntasks-per-node", "3", "--", "sh", "-c", script, str(tmp_path)],
        stdin=PIPE,
        own_group=True,
    )
    _wait_for(tmp_path, 3)
    process.send_signal(number)
    assert process.stdin is not None
    process.stdin.close()

    assert process.wait(30) == status
    assert _left_alive(tmp_path) == []


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_ranks_end_also_while_nobody_reads_what_they_say(tmp_path: Path, number: signal.Signals | None) -> None:
    script = 'echo $$ >"$0/$RANK"; [ "$RANK" = 0 ] && exec yes; [ "$1" = waits ] && exec sleep 300; sleep 1; exit 7'
    rank = ("sh", "-c", script, str(tmp_path), "waits" if number else "fails")
    process = start(
        [*MUSTER, "run", "--here", "--grace", "2", "--ntasks-per-node", "2", "--", *rank], stdout=PIPE, own_group=True
    )
    _wait_for(tmp_path, 2)
    if number is not None:
        time.sleep(1)  # until the pipe is full
        process.send_signal(number)
    ranks = [path.read_text().strip() for path in tmp_path.iterdir()]
    for _ in range(600):
        if not any(map(_is_alive, ranks)):
            break
        time.sleep(0.05)
    were_alive = [pid for pid in ranks if _is_alive(pid)]
    if were_alive:
        os.killpg(process.pid, signal.SIGKILL)

    assert process.stdout is not None
    assert were_alive == []
    with process.stdout as stdout:
        assert set(stdout.read().splitlines()) == {b"0: y"}
    assert process.wait(30) == (7 if number is None else 128 + number)


OPEN_MPI = pytest.param("mpirun", marks=pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun here"))


@pytest.mark.parametrize("launcher", ["local", OPEN_MPI])
def test_where_muster_itself_is_killed_its_ranks_end_too_also_those_that_ignore_sigterm(
    tmp_path: Path, launcher: str
) -> None:
    size = ("--launcher", launcher, "--grace", "1", "--ntasks-per-node", "2")
    rank = 'trap "" TERM; echo $$ >"$0/$RANK"; while :; do sleep 0.1; done'
    # As root too, which Open MPI refuses by itself.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_ALLOW_RUN")}
    process = start(
        [*MUSTER, "run", "--here", *size, "--", "sh", "-c", rank, str(tmp_path)], env=environment, own_group=True
    )
    _wait_for(tmp_path, 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    ranks = [path.read_text().strip() for path in tmp_path.iterdir()]
    for _ in range(300):
        if not any(map(_is_alive, ranks)):
            return
        time.sleep(0.1)
    for pid in ranks:
        os.kill(int(pid), signal.SIGKILL)
    raise AssertionError("the ranks outlived Muster")


def test_one_ctrl_c_on_a_real_terminal_ends_every_rank(tmp_path: Path) -> None:
    words = ["run", "--here", "--quiet", "--grace", "2", "--ntasks-per-node", "2"]
    typed = shlex.join([*MUSTER, *words, "--", "sh", "-c", "echo $$ >$RANK.up; exec sleep 300"])
    keys = "until [ -s 0.up ] && [ -s 1.up ]; do sleep 0.1; done; printf '\\003'; sleep 3"
    terminal = f"({keys}) | script -qec {shlex.quote(typed)} /dev/null"
    result = run(["sh", "-c", terminal], cwd=tmp_path, timeout_s=60)

    assert result.status == 130, result.stdout
    ranks = [int((tmp_path / f"{rank}.up").read_text()) for rank in range(2)]
    assert not [pid for pid in ranks if Path(f"/proc/{pid}").exists()]


def test_simulated_nodes_have_their_own_node_ranks() -> None:
    show = 'echo "$RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE"'
    result = muster_run("-N", "2", "--ntasks-per-node", "2", "--", "sh", "-c", show)

    assert sorted(result.stdout.splitlines()) == ["0: 0 0 2 0 2", "1: 1 1 2 0 2", "2: 2 0 2 1 2", "3: 3 1 2 1 2"]
    assert "simulated" in result.stderr


def test_variables_of_the_plan_reach_the_ranks_and_stale_ones_do_not() -> None:
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    result = muster_run(
        *("--env", "A=$(x) {job_id}", "--env", "PASSED", "--unset-env", "GONE", "--", sys.executable, "-c", show),
        PASSED="on",
        GONE="1",
        RANK="9",
        MASTER_ADDR="elsewhere:29500",
        TORCHELASTIC_USE_AGENT_STORE="True",
        MUSTER_JOB="12",
        MUSTER_ATTEMPT="7",
        MUSTER_ROLE="serve",
        MUSTER_CHECKPOINT="/of/another/job",
        MUSTER_PORT="1",
        MUSTER_ADDRESS="elsewhere",
    )
    seen = json.loads(result.stdout)

    assert seen["A"].startswith("$(x) here-")
    assert (seen["PASSED"], seen["RANK"], seen["MASTER_ADDR"]) == ("on", "0", "127.0.0.1")
    assert not {"GONE", "TORCHELASTIC_USE_AGENT_STORE", "MUSTER_ATTEMPT", "MUSTER_ROLE"} & set(seen)
    assert "MUSTER_CHECKPOINT" not in seen


def test_two_runs_at_once_get_different_ports() -> None:
    ports = {muster_run("--", "sh", "-c", "echo $MASTER_PORT").stdout for _ in range(4)}

    assert all(20000 <= int(port) < 32768 for port in ports)
    assert len(ports) > 1


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("no-such-program",), 2, "is not on PATH"),
        (("./no-such.py",), 2, "there is no file ./no-such.py"),
        (("/etc/passwd",), 2, "may not be executed"),
        (("/etc",), 2, "is a directory"),
        ((), 2, "no command was given"),
        (("torchrun", "--nproc_per_node", "4", "train.py", "-x"), 2, "a launcher of its own"),
        (("--launcher", "srun", "--", "ls"), 2, "srun needs a Slurm controller"),
        (("-g", "99", "ls"), 2, "99 GPUs per node are asked for"),
        (("--chdir", "/not/there", "ls"), 2, "is not there"),
    ],
)
def test_what_cannot_start_is_a_sentence_and_a_hint(words: tuple[str, ...], status: int, sentence: str) -> None:
    result = muster_run(*words)

    assert result.status == status
    assert sentence in result.stderr
    assert "\n\nhint: " in result.stderr
    assert "Traceback" not in result.stderr
