"""One command under every launcher, on real hosts: arguments, input, variables, labels and identity are the same.

Each launcher runs once; the tests look at what its four ranks on two hosts wrote down.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.rank import contract
from muster.runner import ProgramResult
from plugins.labs import Lab

from .lab_runs import Rank, Witness, muster_run, path_with

pytestmark = pytest.mark.lab

ARGUMENTS = (
    *("a  b", "$(touch canary)", "`touch canary`", "it's", 'say "x"', "\\", "\\n", "new\nline", "*", "~", "ünï ☃", ""),
    *("x" * 100_000, "\udcff\udcfe"),  # with the script around it more than one word may hold; bytes that are no UTF-8
    *("-n", "--", "-x", "!!", "$HOME", "${rank}", "${local_rank}", "$$", "a;b", "a&b", "#", "%t", "{job_id}"),
)
VALUE = "$(touch canary) it's\nünï *"
# Variables that an outer job, another launcher or a login shell may have left in the user's environment.
STALE = {
    "RANK": "9",
    "WORLD_SIZE": "99",
    "LOCAL_RANK": "7",
    "MASTER_ADDR": "elsewhere:29500",
    "MASTER_PORT": "1",
    "TORCHELASTIC_RUN_ID": "old",
    "OMPI_COMM_WORLD_RANK": "5",
    "PMI_RANK": "6",
    "OMP_NUM_THREADS": "3",
    "TO_BE_GONE": "1",
    "PASSED_ON": "as it is",
}
torch = pytest.mark.torch


@dataclass(frozen=True)
class Started:
    """One run, and what its ranks saw."""

    launcher: str
    result: ProgramResult
    ranks: dict[int, Rank]
    folder: Path


@pytest.fixture(
    scope="module",
    params=[
        "srun",
        "mpirun",
        "mpirun.mpich",
        pytest.param("torchrun", marks=torch),
        pytest.param("mpirun+torchrun", marks=torch),
        pytest.param("mpirun+torchrun.mpich", marks=[torch, pytest.mark.long]),  # test_on_lab_endings.py has one
    ],
)
def started(request: pytest.FixtureRequest, lab: Lab, scratch: Path, mpich: Path) -> Started:
    """Four ranks on two hosts under one launcher, with everything hostile that fits into one command line."""
    launcher = request.param
    witness = Witness.at(scratch / f"every-{lab.person.home.name}-{launcher}-{id(lab)}")
    words = ("--launcher", launcher.removesuffix(".mpich"), "-N", "2", "--ntasks-per-node", "2")
    variables = ("--env", f"VALUE={VALUE}", "--env", "OUT={run_dir}/{job_id}", "--env", "PASSED_ON")
    paths = {"PATH": path_with(mpich)} if launcher.endswith(".mpich") else {}
    result = muster_run(
        lab,
        witness.folder,
        *(*words, *variables, "--unset-env", "TO_BE_GONE", "--", *witness.command(*ARGUMENTS)),
        stdin="for rank 0\n" * 3,
        env={**STALE, **paths},
    )
    return Started(launcher, result, witness.ranks(), witness.folder)


def test_every_rank_starts_and_the_run_ends_well(started: Started) -> None:
    assert started.result.status == 0, started.result.stderr
    assert sorted(started.ranks) == [0, 1, 2, 3]


def test_arguments_arrive_byte_for_byte(started: Started) -> None:
    assert {rank.arguments for rank in started.ranks.values()} == {ARGUMENTS}
    assert not (started.folder / "canary").exists()


def test_rank_0_alone_reads_the_standard_input(started: Started) -> None:
    assert {number: rank.stdin for number, rank in started.ranks.items()} == {
        0: b"for rank 0\n" * 3,
        **dict.fromkeys((1, 2, 3), b""),
    }


def test_variables_that_were_asked_for_reach_every_rank(started: Started) -> None:
    for rank in started.ranks.values():
        assert rank.environment["VALUE"] == VALUE
        assert rank.environment["PASSED_ON"] == "as it is"
        assert "TO_BE_GONE" not in rank.environment
        folder, _, job = rank.environment["OUT"].rpartition("/")
        assert job.isdigit()
        assert folder.endswith(f"muster-runs/{job}")


def test_each_rank_knows_its_place(started: Started) -> None:
    names = ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK")
    assert {number: rank.ints(*names) for number, rank in started.ranks.items()} == {
        0: (4, 0, 2, 0, 2, 0),
        1: (4, 1, 2, 0, 2, 0),
        2: (4, 0, 2, 1, 2, 1),
        3: (4, 1, 2, 1, 2, 1),
    }
    assert all(set(contract.PUBLISHED) <= set(rank.environment) for rank in started.ranks.values())


def test_the_address_is_the_host_of_rank_0(started: Started) -> None:
    assert {rank.environment["MASTER_ADDR"] for rank in started.ranks.values()} == {started.ranks[0].host}
    assert len({rank.environment["MASTER_PORT"] for rank in started.ranks.values()}) == 1
    assert [started.ranks[number].host for number in range(4)] == ["node1", "node1", "node2", "node2"]


def test_an_agents_store_is_promised_only_where_there_is_an_agent(started: Started) -> None:
    promised = {"TORCHELASTIC_USE_AGENT_STORE" in rank.environment for rank in started.ranks.values()}
    assert promised == {"torchrun" in started.launcher}


def test_every_line_carries_its_rank(started: Started) -> None:
    labels = {"mpirun.mpich": "[{}] "}
    label = labels.get(started.launcher, "{}: ")
    for text, said in (
        ("out of", started.result.stdout),
        ("err of", started.result.stderr),
    ):
        # Open MPI's own process passes both streams on through one.
        lines = {line for line in said.splitlines() if text in line} or {started.result.stdout}
        assert lines == {f"{label.format(rank)}{text} {rank}" for rank in range(4)}
