"""Leaving over and over, to the end of Python itself: no rank aborts there, and none complains of a store that is gone.

A rank that `ranks.together` forks ends before Python is taken down. Here every rank goes all the way, which is where
gloo's threads and the watch's could still be at work.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .ranks import free_port

pytestmark = pytest.mark.torch

# Forks its ranks from one that has torch, and becomes one of them; says how the others ended.
_PROGRAM = """\
import os, sys
import torch.distributed, torch._dynamo, muster  # the first wrapped model of each rank would import the second

rank, size = 0, int(sys.argv[1])
others = []
for number in range(1, size):
    pid = os.fork()
    if pid == 0:
        rank, others = number, []
        break
    others.append(pid)
os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size))

def work():
    with muster.world(timeout=60) as world:
        model = world.ddp(torch.nn.Linear(64, 64))
        for _ in range(3):
            model(torch.ones(4, 64)).sum().backward()
        torch.distributed.all_reduce(torch.ones(1000), async_op=True).wait()
        if sys.argv[2] == "fails" and world.rank == size - 1:
            raise SystemExit(7)
        if sys.argv[2] == "fails":
            world.barrier()

try:
    work()
except RuntimeError:
    pass  # the barrier, which the rank that fails never reaches
except SystemExit as failed:
    sys.exit(failed.code)
finally:
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in others]
    if rank == 0:
        print(*statuses, flush=True)
"""


def _end(how: str, size: int = 4) -> tuple[int, list[int], str]:
    """Rank 0's status, those of the others, and what all of them wrote on standard error."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI"))},
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        "SEARCH_GARBAGE": "1",  # as users' Pythons do at their end (plugins/less_garbage.pth)
    }
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(size), how],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.returncode, [int(word) for word in ended.stdout.split()], ended.stderr


@pytest.mark.parametrize("times", [1, pytest.param(25, marks=pytest.mark.long)])
def test_a_world_is_left_without_a_word(times: int) -> None:
    for _ in range(times):
        assert _end("well") == (0, [0, 0, 0], "")


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.long)])
def test_no_rank_aborts_when_one_fails(times: int) -> None:
    for _ in range(times):
        first, others, said = _end("fails")
        assert others[-1] == 7, said
        assert {first, *others[:-1]} <= {0, 1}, said
