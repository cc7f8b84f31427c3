"""`--check` before a run, with real ranks on this machine: the command runs untouched, or it never starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.errors import RequestError
from muster.runner import ProgramResult
from muster_check.pack import packed, place_check
from plugins.forked import run_muster
from plugins.patience import patient

MUSTER = str(Path(sys.executable).with_name("muster"))
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "MUSTER_"))},
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
}


def run(directory: Path, *words: str, given: str = "") -> ProgramResult:
    return run_muster(["run", "--here", "--quiet", *words], env=ENVIRONMENT, cwd=directory, stdin=given)


def test_the_command_gets_its_words_its_input_and_its_status(tmp_path: Path) -> None:
    words = ["a b", "$(x)", "", "*", "ä\n"]
    program = "import os, sys; print(repr(sys.argv[1:]), sys.stdin.read(), os.environ['RANK']); sys.exit(7)"
    done = run(tmp_path, "--check", "--no-label", "--", sys.executable, "-c", program, *words, given="line")
    assert done.stdout == f"{words!r} line 0\n"
    assert done.status == 7


def test_the_command_finds_the_same_environment_and_signals_as_without_the_check(tmp_path: Path) -> None:
    """Python ignores SIGPIPE, and would hand that down."""
    program = (
        "import os; print({name: value for name, value in sorted(os.environ.items()) if name not in "
        "('MUSTER_JOB', 'MUSTER_RUN_DIR', 'MUSTER_PORT', 'MASTER_PORT', 'TORCHELASTIC_RUN_ID', "
        "'JAX_COORDINATOR_ADDRESS')});"
        "print(int(open('/proc/self/status').read().split('SigIgn:')[1].split()[0], 16) & ~0x180000000)"
    )
    # sh between them: Python itself ignores SIGPIPE anew. glibc's posix_spawn ignores 32 and 33.
    shell = 'echo $((0x$(sed -n "s/SigIgn:.//p" /proc/self/status) & ~0x180000000)); exec "$@"'
    command = ["sh", "-c", shell, "sh", sys.executable, "-c", program]
    plain = run(tmp_path, "--no-label", "--", *command)
    checked = run(tmp_path, "--no-label", "--check", "--", *command)
    assert plain.status == 0, plain.stderr
    assert checked.stdout == plain.stdout


def test_what_is_broken_ends_the_run_before_the_command(tmp_path: Path) -> None:
    done = run(
        tmp_path, "--ntasks-per-node", "2", "--check", "--env", "NCCL_SOCKET_IFNAME=none0", "--", "touch", "started"
    )
    assert done.status == 1
    assert "broken: interfaces: NCCL_SOCKET_IFNAME=none0: none0 is not there" in done.stderr
    assert "hint: " in done.stderr
    assert not (tmp_path / "started").exists()


def test_a_warning_ends_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--check", "--env", "NCCL_P2P_DISABLE=1", "--", "touch", "started")
    assert done.status == 0, done.stderr
    assert "warning: variables: NCCL_P2P_DISABLE=1" in done.stderr
    assert (tmp_path / "started").exists()


@pytest.mark.torch
def test_the_agents_of_torchrun_are_checked_and_leave_no_trace(tmp_path: Path) -> None:
    program = (  # a line at once: the two ranks share one pipe
        "import os; e = os.environ; os.write(1, f\"{e['RANK']} {e['WORLD_SIZE']} {'MUSTER_CHECKED' in e}\\n\".encode())"
    )
    words = ["--ntasks-per-node", "2", "--launcher", "torchrun", "--no-label", "--check"]
    done = run(tmp_path, *words, "--", sys.executable, "-c", program)
    assert done.status == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2 False", "1 2 False"]
    stopped = run(tmp_path, *words, "--env", "GLOO_SOCKET_IFNAME=none0", "--", sys.executable, "-c", program)
    assert stopped.status == 1
    assert stopped.stdout == ""
    assert "none0 is not there" in stopped.stderr


def test_a_command_that_is_not_there_is_said_in_a_shells_words(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(_placed(tmp_path)), "gate", "{}", "no-such-program"],
        env={**ENVIRONMENT, "MASTER_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 127
    assert done.stderr == "muster: no-such-program: not found\n"


def _placed(directory: Path) -> Path:
    file = directory / "check.pyz"
    place_check(file)
    return file


def test_the_packed_file_is_the_same_bytes_each_time_and_needs_nothing_beside_it(tmp_path: Path) -> None:
    assert packed() == packed()
    done = subprocess.run(
        [sys.executable, "-I", str(_placed(tmp_path)), "facts", "{}"],
        cwd=tmp_path,
        env={"MASTER_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("muster-facts end")


def test_a_file_that_is_there_already_is_left_alone(tmp_path: Path) -> None:
    file = _placed(tmp_path)
    before = file.stat()
    place_check(file)
    assert file.stat().st_ino == before.st_ino
    file.write_bytes(b"half")
    place_check(file)
    assert file.read_bytes() == packed()


@pytest.mark.parametrize("how", ["group-writable", "a link"])
def test_a_file_that_others_can_change_is_replaced_by_ones_own(tmp_path: Path, how: str) -> None:
    file = _placed(tmp_path)
    if how == "a link":
        file.rename(tmp_path / "other")
        file.symlink_to(tmp_path / "other")
    else:
        file.chmod(0o664)
    place_check(file)
    assert file.stat().st_mode & 0o022 == 0
    assert not file.is_symlink()
    assert file.read_bytes() == packed()
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "muster-runs").write_text("a file")
    with pytest.raises(RequestError, match="the check cannot be placed"):
        place_check(tmp_path / "muster-runs" / "check.pyz")


def _has_socket(pid: int) -> bool:
    """Return whether a process has a socket: the check has begun to meet the other ranks."""
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(entry.readlink()))
    return any(link.startswith("socket:") for link in links)


def test_ctrl_c_during_the_check_ends_it(tmp_path: Path) -> None:
    """Rank 0 alone, of two that are promised: it waits for the other one."""
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    process = subprocess.Popen(
        [sys.executable, str(_placed(tmp_path)), "gate", "{}", "touch", "started"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, heard)
    while process.poll() is None and not _has_socket(process.pid):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=patient(20))
    assert process.returncode == -signal.SIGINT
    assert said == ""
    assert not (tmp_path / "started").exists()
