"""How a run on real hosts ends: the status of the first rank that failed, all ranks together, within the grace time."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.runner import start
from plugins.labs import MUSTER, Lab

from .lab_runs import AGENTS_OF_MPIRUN, muster_run, path_with

pytestmark = pytest.mark.lab
torch = pytest.mark.torch

LAUNCHERS = [
    "srun",
    "mpirun",
    "mpirun.mpich",
    pytest.param("torchrun", marks=torch),
    AGENTS_OF_MPIRUN,
    pytest.param("mpirun+torchrun.mpich", marks=torch),
]
# One rank fails; the others would sleep for ever.
FAILS = '[ "$RANK" != 2 ] || { %s; }; exec sleep 300'


@pytest.fixture
def fail(lab: Lab, shared_directory: Path, mpich: Path) -> Callable[[str, str], tuple[int, str]]:
    """Four ranks on two hosts of which one runs a command: (status, stderr)."""

    def run_it(launcher: str, command: str) -> tuple[int, str]:
        path = {"PATH": path_with(mpich)} if launcher.endswith(".mpich") else None
        size = ("--launcher", launcher.removesuffix(".mpich"), "-N", "2", "--ntasks-per-node", "2", "--grace", "2")
        result = muster_run(lab, shared_directory, *size, "--", "sh", "-c", FAILS % command, env=path, timeout_s=60)
        return result.status, result.stderr

    return run_it


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_status_is_that_of_the_first_rank_that_failed(
    fail: Callable[[str, str], tuple[int, str]], launcher: str
) -> None:
    status, said = fail(launcher, "exit 7")

    assert status == 7, said


@pytest.mark.parametrize(("number", "expected"), [("KILL", 137), ("SEGV", 139), ("ABRT", 134)])
@pytest.mark.parametrize("launcher", ["srun", "mpirun", "mpirun.mpich"])
def test_a_rank_that_dies_of_a_signal_gives_128_and_its_number(
    fail: Callable[[str, str], tuple[int, str]], launcher: str, number: str, expected: int
) -> None:
    status, said = fail(launcher, f"kill -{number} $$")

    assert status == expected, said


@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["torchrun", AGENTS_OF_MPIRUN])
def test_an_agent_passes_on_the_signal_of_its_rank(fail: Callable[[str, str], tuple[int, str]], launcher: str) -> None:
    status, said = fail(launcher, "kill -KILL $$")

    assert status == 137, said


def test_the_last_words_are_those_of_the_rank_that_failed_first(lab: Lab, shared_directory: Path) -> None:
    """The others end with a status of their own when they are asked to end."""
    others = "trap 'exit 9' TERM; while :; do sleep 0.1; done"
    command = f'[ "$RANK" != 3 ] || {{ sleep 0.5; exit 5; }}; {others}'
    result = muster_run(lab, shared_directory, "-N", "2", "--ntasks-per-node", "2", "--", "sh", "-c", command)

    assert result.status == 5, result.stderr


def test_ranks_that_ignore_the_request_to_end_are_ended_after_the_grace_time(lab: Lab, shared_directory: Path) -> None:
    """Slurm's own patience, KillWait, is 30 s."""
    tick = "i=0; while [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); echo $i; done"
    stubborn = f'trap "" TERM; [ "$RANK" = 1 ] && {{ sleep 0.5; exit 5; }}; {tick}'
    size = ("--grace", "1", "-N", "2", "--ntasks-per-node", "2")
    result = muster_run(lab, shared_directory, *size, "--", "sh", "-c", stubborn)

    assert result.status == 5, result.stderr
    ticks = [int(line.partition(": ")[2]) for line in result.stdout.splitlines()]
    assert max(ticks) < 100


@pytest.mark.parametrize(
    "launcher",
    ["srun", "mpirun", pytest.param("torchrun", marks=torch), AGENTS_OF_MPIRUN],
)
def test_one_ctrl_c_ends_every_rank(lab: Lab, shared_directory: Path, launcher: str) -> None:
    """Typed on a real terminal, once all ranks are there."""
    running = ["squeue", "--noheader", "--me", "--states=running", "--format=%A"]
    before = set(lab.exec(running).stdout.split())
    words = ["--launcher", launcher, "--grace", "2", "-N", "2", "--ntasks-per-node", "2"]
    ranks = ["sh", "-c", ": >$RANK.up; exec sleep 300"]
    typed = shlex.join([MUSTER, "run", "--quiet", *words, "--", *ranks])
    keys = "until [ -e 0.up ] && [ -e 1.up ] && [ -e 2.up ] && [ -e 3.up ]; do sleep 0.1; done; printf '\\003'; sleep 3"
    terminal = f"({keys}) | script -qec {shlex.quote(typed)} /dev/null"
    result = lab.exec(["sh", "-c", terminal], cwd=shared_directory, env={"PATH": path_with()}, timeout_s=60)

    assert result.status == 130, result.stdout
    assert set(lab.exec(running).stdout.split()) - before == set()


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("-p", "nowhere", "--", "hostname"), 2, "this cluster has no partition nowhere (its partitions: main)"),
        (("-N", "99", "--", "hostname"), 2, "99 nodes, but main has 4 (what Slurm says here)"),
        (("--gres", "quantum:3", "--", "hostname"), 3, "Slurm refuses"),
        (("--", "./not-there.sh"), 2, "there is no file"),
        (("--nodez", "2", "--", "hostname"), 2, "did you mean"),
        (("--mpi", "pmi9", "--", "hostname"), 2, "this Slurm offers no --mpi pmi9"),
    ],
)
def test_a_refusal_is_a_sentence_a_hint_and_a_status(
    lab: Lab, shared_directory: Path, words: tuple[str, ...], status: int, sentence: str
) -> None:
    result = muster_run(lab, shared_directory, *words)

    assert result.status == status, result.stderr
    assert sentence in result.stderr
    assert "\n\nhint: " in result.stderr
    assert "Traceback" not in result.stderr


def test_a_program_that_the_nodes_do_not_have_is_named(lab: Lab, shared_directory: Path) -> None:
    result = muster_run(lab, shared_directory, "-N", "2", "--", "no-such-program")

    assert result.status == 127, result.stderr
    assert "no-such-program" in result.stderr


def test_mpich_that_cannot_start_its_proxies_does_not_wait_for_ever(lab: Lab, shared_directory: Path) -> None:
    if not Path("/usr/bin/mpirun.mpich").exists():
        pytest.skip("mpirun.mpich is missing: apt-get install mpich")
    alone = shared_directory / "mpich"
    alone.mkdir()
    (alone / "mpirun").symlink_to("/usr/bin/mpirun.mpich")
    words = ("--launcher", "mpirun", "-N", "2", "--", "hostname")
    result = muster_run(lab, shared_directory, *words, env={"PATH": path_with(alone)}, timeout_s=60)

    assert result.status not in {0, 137, 143}, result.stderr
    assert "muster: error: mpirun's proxies could not be started on the nodes\n\nhint: " in result.stderr


def test_a_step_of_many_lines_loses_none(lab: Lab, shared_directory: Path) -> None:
    result = muster_run(lab, shared_directory, "-N", "4", "--ntasks-per-node", "1", "--", "seq", "5000")

    lines = result.stdout.splitlines()
    for rank in range(4):
        mine = [line.partition(": ")[2] for line in lines if line.startswith(f"{rank}: ")]
        assert mine == [str(number) for number in range(1, 5001)]


def test_the_output_of_one_rank_is_byte_exact(lab: Lab, shared_directory: Path) -> None:
    script = shared_directory / "bytes.py"
    script.write_text("import sys; sys.stdout.buffer.write(bytes(range(256)) * 10); sys.stderr.write('err')\n")
    program = f"'{sys.executable}' '{script}'"
    command = f"{program} >wanted; '{MUSTER}' run --quiet -- {program} >got"
    result = lab.exec(["sh", "-c", command], cwd=shared_directory)

    assert (shared_directory / "got").read_bytes() == (shared_directory / "wanted").read_bytes() != b""
    assert result.stderr.count("err") == 2


def test_nothing_that_was_said_is_lost_where_stderr_is_a_file(lab: Lab, shared_directory: Path) -> None:
    """srun opens it once more for the ranks: neither the script's lines nor the caller's may lie over theirs."""
    script = f"'{MUSTER}' run -N 1 --ntasks-per-node 2 -- sh -c 'echo of a rank >&2; exit 3'; echo of the caller >&2"
    for _ in range(3):
        file = shared_directory / "errors"
        with file.open("wb") as errors:
            argv = lab.argv(["sh", "-c", script])
            assert start(argv, env=lab.person.environment(), stderr=errors).wait(60) == 0
        said = file.read_text()
        assert said.count("of a rank\n") == 2, said
        assert "Exited with exit code 3\n" in said
        assert said.endswith("of the caller\n")
