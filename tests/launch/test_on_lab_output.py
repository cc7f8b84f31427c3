"""What ranks write comes out: every line of every rank, under every launcher, in time, also when a rank fails."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from muster.runner import PIPE, checked, end_group, start
from plugins.labs import MUSTER, Lab

from .lab_runs import AGENTS_OF_MPIRUN, muster_run, path_with, wait_until_ended

if TYPE_CHECKING:
    from muster.runner import Process

pytestmark = pytest.mark.lab
torch = pytest.mark.torch

LABELLED = ["srun", pytest.param("torchrun", marks=torch), AGENTS_OF_MPIRUN]
RANKS = 8
SIZE = ("-N", "2", "--ntasks-per-node", "4")
# Lines of a length that tells of a missing piece: "17 of 3 xxx…".
SPEAKER = """\
import os, sys, time
lines, pause_s = int(sys.argv[1]), float(sys.argv[2])
for number in range(lines):
    print(number, "of", os.environ["RANK"], "x" * (number % 90), file=sys.stderr if number % 5 == 4 else sys.stdout)
    if pause_s:
        sys.stdout.flush()
        time.sleep(pause_s)
"""


@pytest.fixture
def speaker(shared_directory: Path) -> list[str]:
    """A program that writes so many lines, with a pause after each."""
    (shared_directory / "speaker.py").write_text(SPEAKER)
    return [sys.executable, "-S", str(shared_directory / "speaker.py")]


def _whole(*texts: str) -> Counter[int]:
    """How many whole lines of each rank are there; none is in pieces, or behind another's label."""
    lines: Counter[int] = Counter()
    for line in "".join(texts).splitlines():
        label, _, text = line.partition(": ")
        if " of " not in text:
            assert not label.isdigit(), line
            continue
        number, _, rank, *rest = text.split(" ")
        assert (rank, " ".join(rest)) == (label, "x" * (int(number) % 90)), line
        lines[int(rank)] += 1
    return lines


FAST, SLOW = (10_000, 0.0), (150, 0.01)


@pytest.mark.parametrize(
    ("launcher", "lines", "pause_s"),
    [
        ("srun", *SLOW),
        pytest.param("torchrun", *FAST, marks=torch),
        # That lines come while ranks go on is seen below; at full speed more could be lost.
        pytest.param("torchrun", *SLOW, marks=[torch, pytest.mark.long]),
        ("mpirun", *FAST),
        ("mpirun", *SLOW),
        # At full speed Open MPI breaks the lines of several nodes into pieces of 4 KiB.
        pytest.param("mpirun+torchrun", *SLOW, marks=torch),
    ],
)
def test_no_line_is_lost_and_no_byte_is_foreign(
    lab: Lab, shared_directory: Path, speaker: list[str], launcher: str, lines: int, pause_s: float
) -> None:
    words = ("--launcher", launcher, *SIZE, "--", *speaker, str(lines), str(pause_s))
    result = muster_run(lab, shared_directory, *words)

    assert result.status == 0, result.stderr
    assert _whole(result.stdout, result.stderr) == dict.fromkeys(range(RANKS), lines)


def test_no_byte_is_lost_at_sruns_full_speed(lab: Lab, shared_directory: Path, speaker: list[str]) -> None:
    """Compare bytes, not lines: a plain `srun --label` breaks a few lines of 80,000 in two on a busy machine."""
    lines = FAST[0]
    result = muster_run(lab, shared_directory, *SIZE, "--", *speaker, str(lines), "0")

    assert result.status == 0, result.stderr
    for text, numbers in (
        (result.stdout, [number for number in range(lines) if number % 5 != 4]),
        (result.stderr, [number for number in range(lines) if number % 5 == 4]),
    ):
        written: dict[str, list[str]] = {}
        for line in text.splitlines():
            label, colon, piece = line.partition(": ")
            if colon and label.isdigit():
                written.setdefault(label, []).append(piece)
        for rank in range(RANKS):
            expected = "".join(f"{number} of {rank} {'x' * (number % 90)}" for number in numbers)
            assert "".join(written[str(rank)]) == expected


@pytest.mark.parametrize("launcher", ["srun", pytest.param("torchrun", marks=[torch, pytest.mark.long])])
def test_a_queued_jobs_logs_hold_every_line(
    lab: Lab, shared_directory: Path, speaker: list[str], launcher: str
) -> None:
    words = ["submit", "--quiet", "--launcher", launcher, *SIZE, "--", *speaker, "2000", "0"]
    queued = checked(lab.exec([MUSTER, *words], cwd=shared_directory, env={"PATH": path_with()}))
    assert wait_until_ended(lab, queued.stdout.split()[0]) == "COMPLETED"

    logs = sorted((shared_directory / "muster-runs").glob("*/logs/*.log"))
    assert _whole(*(log.read_text() for log in logs)) == dict.fromkeys(range(RANKS), 2000)


def test_logs_puts_the_pieces_of_open_mpis_lines_together(lab: Lab, shared_directory: Path, speaker: list[str]) -> None:
    words = ["submit", "--quiet", "--launcher", "mpirun", *SIZE, "--", *speaker, "2000", "0"]
    job = checked(lab.exec([MUSTER, *words], cwd=shared_directory, env={"PATH": path_with()})).stdout.strip()
    assert wait_until_ended(lab, job) == "COMPLETED"

    shown = checked(lab.exec([MUSTER, "logs", job], cwd=shared_directory)).stdout
    assert _whole(shown) == dict.fromkeys(range(RANKS), 2000)


@pytest.fixture
def live(lab: Lab, shared_directory: Path, launcher: str) -> Iterator[Process]:
    """Ranks that write one line, and then nothing until they are told to."""
    waits = 'echo "first of $RANK"; until [ -e go ]; do sleep 0.05; done'
    words = [MUSTER, "run", "--quiet", "--launcher", launcher, *SIZE, "--", "sh", "-c", waits]
    environment = lab.person.environment({"PATH": path_with()})
    process = start(lab.argv(words), env=environment, cwd=shared_directory, stdout=PIPE, stderr=PIPE, own_group=True)
    yield process
    end_group(process, grace_s=10)


@pytest.mark.parametrize("launcher", [*LABELLED, "mpirun"])
def test_a_line_is_seen_while_its_rank_goes_on(live: Process, shared_directory: Path) -> None:
    assert live.stdout is not None
    seen = {live.stdout.readline() for _ in range(RANKS)}

    assert len(seen) == RANKS
    (shared_directory / "go").touch()
    assert live.wait(60) == 0


# Rank 5 fails at its 20th line; the others go on until they are ended.
FAILS = 'i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); echo "$i of $RANK "; [ $RANK.$i != 5.20 ] || %s; sleep 0.02; done'


@torch
@pytest.mark.parametrize(
    ("how", "status"),
    [
        pytest.param("exit 6", 6, marks=pytest.mark.long, id="a rank exits"),
        pytest.param("kill -9 $PPID", 137, id="its agent is killed"),
    ],
)
def test_what_was_written_before_a_failure_comes_out(lab: Lab, shared_directory: Path, how: str, status: int) -> None:
    words = ("--launcher", "torchrun", *SIZE, "--", "sh", "-c", FAILS % how)
    result = muster_run(lab, shared_directory, *words)

    assert result.status == status, result.stderr
    for rank in range(RANKS):
        lines = [line for line in result.stdout.splitlines() if line.startswith(f"{rank}: ")]
        assert lines[:10] == [f"{rank}: {number} of {rank} " for number in range(1, 11)]
        assert lines == [f"{rank}: {number} of {rank} " for number in range(1, len(lines) + 1)]
    assert result.stdout.count(" of 5 \n") >= 20


@torch
def test_ranks_under_agents_that_ignore_the_request_to_end_have_one_grace_time(
    lab: Lab, shared_directory: Path
) -> None:
    """On both nodes: one hears of the failure from the other. torch itself would wait 30 s, Slurm as long again."""
    ticks = "i=0; while [ $i -lt 600 ]; do i=$((i + 1)); echo $i; sleep 0.05; done"
    stubborn = f'trap "" TERM; [ "$RANK" != 1 ] || {{ sleep 1; exit 5; }}; {ticks}'
    size = ("--launcher", "torchrun", "--grace", "2", "-N", "2", "--ntasks-per-node", "2")
    result = muster_run(lab, shared_directory, *size, "--", "sh", "-c", stubborn)

    assert result.status == 5, result.stderr
    last = max(int(line.partition(": ")[2]) for line in result.stdout.splitlines())
    assert last < 20 * (1 + 2 + 5)


@torch
def test_an_agent_leaves_nothing_in_its_nodes_tmp(lab: Lab, shared_directory: Path) -> None:
    before = checked(lab.exec(["ls", "-A", "/tmp"], host="node1")).stdout
    assert muster_run(lab, shared_directory, "-N", "1", "--launcher", "torchrun", "--", "true").status == 0

    assert checked(lab.exec(["ls", "-A", "/tmp"], host="node1")).stdout == before


def test_nothing_of_a_failed_run_stays_on_the_login_host(lab: Lab, shared_directory: Path) -> None:
    """A sleep of the grace time, for example."""
    words = ("--grace", "3000", "-N", "2", "--", "sh", "-c", "exit 3")
    assert muster_run(lab, shared_directory, *words).status == 3

    assert "sleep 3000" not in _processes()


def _processes() -> str:
    return "\n".join(
        path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    )
