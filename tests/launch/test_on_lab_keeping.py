"""`muster run` stays beside what it has started: it says what happened, ends when it is told to, and leaves no job."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from muster.runner import PIPE, checked, end_group, start
from plugins.labs import MUSTER, Lab

from .lab_runs import AGENTS_OF_MPIRUN, muster_run, path_with, wait_for_files

if TYPE_CHECKING:
    from muster.runner import Process, ProgramResult

pytestmark = pytest.mark.lab
torch = pytest.mark.torch

LAUNCHERS = ["srun", "mpirun", pytest.param("torchrun", marks=torch), AGENTS_OF_MPIRUN]
ENDS = (("TERM", 143), ("HUP", 129), ("INT", 130))
SIZE = ("-N", "2", "--ntasks-per-node", "1", "--grace", "2")
SLEEPS = ["sh", "-c", ": >up.$RANK; exec sleep 300"]
# In the lab, where process numbers are its own: NAME's process gets a signal once both ranks are there.
SIGNALLED = """\
muster run {words} >out 2>err &
until [ -e up.0 ] && [ -e up.1 ]; do sleep 0.1; done
kill -{signal} {victim}
wait $!
echo "status $?"
for _ in $(seq 100); do [ -n "$(squeue --noheader --me --name={name})" ] || break; sleep 0.1; done
squeue --noheader --me --name={name}
"""
ITSELF, ITS_SHELL, ITS_SALLOC = "$!", "$(pgrep -f '^bash /dev/fd/3')", "$(pgrep -x salloc)"
# It has helpers of the same name, which go on for a moment and hear of the end of the step.
ITS_FIRST_SHELL = "$(pgrep -o -f '^bash /dev/fd/3')"


@pytest.fixture
def signalled(lab: Lab, shared_directory: Path) -> Callable[[str, str, str], tuple[str, str]]:
    """A run of two sleeping ranks in which one process gets a signal: (status, jobs that stay), and what was said."""

    def run_it(launcher: str, number: str, victim: str) -> tuple[str, str]:
        name = f"keeping-{shared_directory.name}"
        words = shlex.join(["-J", name, "--launcher", launcher, *SIZE, "--", *SLEEPS])
        script = SIGNALLED.format(words=words, signal=number, victim=victim, name=name)
        environment = {"PATH": path_with()}
        result = lab.exec(["bash", "-c", script], cwd=shared_directory, env=environment, timeout_s=90)
        return result.stdout.strip(), (shared_directory / "err").read_text()

    return run_it


# muster itself hears the signal, in one way whatever the launcher: agents meet one of the three in `make test`.
@pytest.mark.parametrize(
    ("launcher", "number", "status"),
    [
        *(("srun", *each) for each in ENDS),
        *(("mpirun", *each) for each in ENDS),
        pytest.param("torchrun", *ENDS[0], marks=torch),
        *(pytest.param("torchrun", *each, marks=[torch, pytest.mark.long]) for each in ENDS[1:]),
        *(pytest.param("mpirun+torchrun", *each, marks=[torch, pytest.mark.long]) for each in ENDS),
    ],
)
def test_a_signal_to_muster_run_gives_its_status_and_no_job_stays(
    signalled: Callable[[str, str, str], tuple[str, str]], launcher: str, number: str, status: int
) -> None:
    # A shell lets what it starts in the background ignore SIGINT: Python hears it all the same once a handler is set.
    ended, said = signalled(launcher, number, ITSELF)

    assert ended == f"status {status}", said
    assert "muster: ended by" in said


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
@pytest.mark.parametrize(
    "victim",
    [ITSELF, ITS_SHELL, ITS_FIRST_SHELL, ITS_SALLOC],
    ids=["muster", "the script's shells", "the script's own shell", "salloc"],
)
def test_whichever_is_killed_the_status_says_so_and_the_nodes_are_given_back(
    signalled: Callable[[str, str, str], tuple[str, str]], launcher: str, victim: str
) -> None:
    ended, said = signalled(launcher, "KILL", victim)

    assert ended == "status 137", said
    assert victim == ITSELF or "muster: the job's script was ended by SIGKILL" in said


@pytest.mark.parametrize("launcher", [*LAUNCHERS, "mpirun.mpich"])
def test_a_failed_run_ends_with_one_sentence_about_its_first_rank(
    lab: Lab, shared_directory: Path, mpich: Path, launcher: str
) -> None:
    path = path_with(mpich) if launcher.endswith(".mpich") else path_with()
    words = ["--launcher", launcher.removesuffix(".mpich"), *SIZE]
    command = '[ "$RANK" != 1 ] || { echo "RuntimeError: CUDA out of memory" >&2; exit 7; }; exec sleep 300'
    argv = [MUSTER, "run", *words, "--", "sh", "-c", command]
    result = lab.exec(argv, cwd=shared_directory, env={"PATH": path}, timeout_s=60)

    assert result.status == 7, result.stderr
    said = [line for line in result.stderr.splitlines() if line.startswith("muster: first: ")]
    assert len(said) == 1
    assert "rank 1" in said[0]
    assert "exit status 7" in said[0]


def test_within_an_allocation_too(lab: Lab, shared_directory: Path) -> None:
    argv = ["salloc", "--quiet", "-N2", MUSTER, "run", "--", "sh", "-c", '[ "$RANK" != 1 ] || exit 4; sleep 300']
    result = lab.exec(argv, cwd=shared_directory, env={"PATH": path_with()}, timeout_s=60)

    assert result.status == 4
    assert "muster: first: rank 1 on node2: exit status 4" in result.stderr


def test_why_and_logs_know_a_run_that_failed(lab: Lab, shared_directory: Path) -> None:
    argv = [MUSTER, "run", "-N", "2", "--", "sh", "-c", 'echo "word of $RANK"; [ "$RANK" != 1 ] || exit 6; sleep 300']
    result = lab.exec(argv, cwd=shared_directory, env={"PATH": path_with()}, timeout_s=60)
    job = result.stderr.partition("(job ")[2].partition(")")[0]

    why = checked(lab.exec([MUSTER, "why", job], cwd=shared_directory)).stdout
    assert "first: rank 1 on node2: exit status 6" in why
    assert "    word of 1\n" in why
    assert "1: word of 1\n" in checked(lab.exec([MUSTER, "logs", job], cwd=shared_directory)).stdout


@pytest.fixture
def full(new_lab: Callable[..., Lab]) -> Lab:
    """A lab of one node."""
    return new_lab("-N", "1")


def test_while_it_waits_it_says_why_and_ctrl_c_withdraws_it(full: Lab, shared_directory: Path) -> None:
    script = f"""\
sbatch --quiet --exclusive -o /dev/null --wrap 'sleep 300' && until squeue -h -t R | grep -q .; do sleep 0.1; done
'{MUSTER}' run --exclusive -- true 2>err &
until grep -q 'waits for its nodes' err; do sleep 0.1; done
kill -INT $!
wait $!
echo "status $?"
squeue --noheader --states=PENDING
"""
    result = full.exec(["bash", "-mc", script], cwd=shared_directory, env={"PATH": path_with()}, timeout_s=60)

    assert result.stdout.strip().endswith("status 130"), result
    said = (shared_directory / "err").read_text()
    assert "waits for its nodes: Resources: " in said
    assert re.search("before there were nodes: job [0-9]+ is withdrawn", said)


TALKS = ["sh", "-c", "while :; do echo a line; sleep 0.05; done"]


@pytest.mark.parametrize(
    ("redirection", "status", "sentence"),
    [
        (">/dev/full", 2, "the output cannot be written: No space left on device"),
        (">&-", 2, "the output cannot be written: Bad file descriptor"),
        ("| head -n 1", 141, ""),
    ],
)
def test_an_output_that_nobody_takes_ends_the_run(
    lab: Lab, shared_directory: Path, redirection: str, status: int, sentence: str
) -> None:
    words = shlex.join([MUSTER, "run", "--quiet", *SIZE, "--", *TALKS])
    script = f'{words} {redirection}; echo "status ${{PIPESTATUS[0]}}" >&2'
    result = lab.exec(["bash", "-c", script], cwd=shared_directory, env={"PATH": path_with()}, timeout_s=60)

    assert f"status {status}\n" in result.stderr
    assert sentence in result.stderr


def test_a_closed_standard_input_is_an_empty_one(lab: Lab, shared_directory: Path) -> None:
    words = shlex.join([MUSTER, "run", "--quiet", "--", "sh", "-c", "cat; echo read"])
    result = lab.exec(["bash", "-c", f"{words} <&-"], cwd=shared_directory, env={"PATH": path_with()})

    assert (result.status, result.stdout) == (0, "read\n"), result.stderr


@pytest.mark.long  # Slurm itself takes half a minute to give the node up
def test_a_node_whose_link_is_cut_under_mpirun_ends_the_run_and_is_named(
    new_lab: Callable[..., Lab], shared_directory: Path
) -> None:
    lab = new_lab("-N", "2")
    words = ["run", "--launcher", "mpirun", *SIZE, "--", *SLEEPS]
    argv, environment = lab.argv([MUSTER, *words]), lab.person.environment({"PATH": path_with()})
    process = start(argv, env=environment, cwd=shared_directory, stdout=PIPE, stderr=PIPE, own_group=True)
    try:
        wait_for_files(shared_directory, "up.*", 2)
        checked(lab.muster("fault", "cut-link", "node2"))
        _, said = process.communicate(timeout=150)
    finally:
        end_group(process, grace_s=10)

    assert process.returncode
    assert b"muster: first: node2 failed" in said, said


@pytest.fixture
def sleeping(lab: Lab, shared_directory: Path) -> Iterator[Process]:
    """A run of ranks that sleep, as soon as they are there."""
    argv = lab.argv([MUSTER, "run", "--quiet", "--env", "HIDDEN_TOKEN=abcdef123456", *SIZE, "--", *SLEEPS])
    environment = lab.person.environment({"PATH": path_with()})
    process = start(argv, env=environment, cwd=shared_directory, stdout=PIPE, stderr=PIPE, own_group=True)
    wait_for_files(shared_directory, "up.*", 2)
    yield process
    end_group(process, grace_s=10)


def test_no_word_of_any_process_holds_the_script(lab: Lab, sleeping: Process) -> None:
    """The processes of this lab alone: it has process numbers of its own."""
    assert sleeping.poll() is None
    words = checked(lab.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"])).stdout

    assert "muster run --quiet" in words
    assert "muster_mai" + "n" not in words
    assert "abcdef" + "123456" not in words.replace("HIDDEN_TOKEN=abcdef123456", "")


def test_end_of_a_run_leaves_no_guard(lab: Lab, shared_directory: Path) -> None:
    assert muster_run(lab, shared_directory, "--", "true").status == 0

    result: ProgramResult = lab.exec(["pgrep", "-f", "[s]cancel"])
    assert result.status == 1, result.stdout


def test_rank_0_reads_a_terminal_and_ctrl_c_ends_it(lab: Lab, shared_directory: Path) -> None:
    """As somebody types it: a word, then Ctrl-C."""
    command = 'read -r word; echo "got $word" >got; : >up; exec sleep 300'
    typed = shlex.join([MUSTER, "run", "--grace", "2", "--", "sh", "-c", command])
    keys = "sleep 1; echo hello; until [ -e up ]; do sleep 0.1; done; printf '\\003'; sleep 3"
    terminal = f"({keys}) | script -qec {shlex.quote(typed)} /dev/null"
    result = lab.exec(["sh", "-c", terminal], cwd=shared_directory, env={"PATH": path_with()}, timeout_s=60)

    assert result.status == 128 + signal.SIGINT, result.stdout
    assert (shared_directory / "got").read_text() == "got hello\n"
    assert "muster: ended by Ctrl-C (job " in result.stdout
    assert "first: " not in result.stdout, "who ended first does not matter"
