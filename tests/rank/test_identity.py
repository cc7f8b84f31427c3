"""Guards that a rank learns who it is from every launcher, and that two launchers in one environment are told apart."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.rank.errors import WireupError
from muster.rank.families import FAMILIES
from muster.rank.identity import Identity, identify, tasks_per_node

from .environments import SLURM_JOB, batch_script, horovod, hydra, muster, open_mpi, pals, slurm_step, torchrun

HOSTS = ("n1", "n2", "n3", "n4")
Who = tuple[str, int, int, Optional[int], Optional[int], Optional[int], Optional[int]]

# family, rank, size, local rank, local size, node rank, nodes
TOLD: dict[str, tuple[dict[str, str], Who]] = {
    "a plain process": ({"PATH": "/bin"}, ("single", 0, 1, 0, 1, 0, 1)),
    "one task of a batch script": (batch_script(1), ("single", 0, 1, 0, 1, 0, 1)),
    "torchrun": (torchrun(5, 8, 1, 2), ("torchrun", 5, 8, 1, 2, 2, 4)),
    "torchrun in a step of one agent a node": (
        {**slurm_step(2, "1(x4)"), **torchrun(5, 8, 1, 2)},
        ("torchrun", 5, 8, 1, 2, 2, 4),
    ),
    "torchrun under mpirun in a job": (
        {**slurm_step(1, "1(x3)"), **open_mpi(2, 4, 0, 1, "n3"), **torchrun(5, 8, 1, 2)},
        ("torchrun", 5, 8, 1, 2, 2, 4),
    ),
    "torchrun in one task of a step": (
        {**slurm_step(0, "1"), **torchrun(1, 2, 1, 2)},
        ("torchrun", 1, 2, 1, 2, 0, 1),
    ),
    "torchrun under srun --mpi=pmix": (
        {**slurm_step(2, "1(x4)"), "PMIX_RANK": "2", **torchrun(5, 8, 1, 2)},
        ("torchrun", 5, 8, 1, 2, 2, 4),
    ),
    "muster run over srun": ({**slurm_step(5), **muster("srun", 5, 8, 1, 2)}, ("muster", 5, 8, 1, 2, 2, 4)),
    "muster run over mpirun": (
        {**slurm_step(1, "1(x3)"), **open_mpi(5, 8, 1, 2, "n3"), **muster("mpirun", 5, 8, 1, 2)},
        ("muster", 5, 8, 1, 2, 2, 4),
    ),
    "a loop of ranks in one task": (
        {**slurm_step(0, "1"), "RANK": "1", "WORLD_SIZE": "2"},
        ("env", 1, 2, None, None, None, None),
    ),
    "RANK and WORLD_SIZE written by hand in each task": (
        {**slurm_step(5), "RANK": "5", "WORLD_SIZE": "8"},
        ("env", 5, 8, 1, 2, 2, 4),
    ),
    "srun": (slurm_step(5), ("slurm", 5, 8, 1, 2, 2, 4)),
    "srun, uneven": (slurm_step(3, "3,1"), ("slurm", 3, 4, 0, 1, 1, 2)),
    "srun, cyclic": (slurm_step(5, node=1, local=1), ("slurm", 5, 8, 1, 2, 1, 4)),
    "srun --mpi=pmi2": ({**slurm_step(5), "PMI_RANK": "5", "PMI_SIZE": "8"}, ("pmi", 5, 8, 1, 2, 2, 4)),
    "srun --mpi=pmix": ({**slurm_step(5), "PMIX_RANK": "5"}, ("pmix", 5, 8, 1, 2, 2, 4)),
    "mpirun": (open_mpi(2, 3, 2, 3), ("openmpi", 2, 3, 2, 3, None, None)),
    "mpirun in sbatch, on its first host": (
        {**batch_script(8), **open_mpi(1, 8, 1, 2, "n1")},
        ("openmpi", 1, 8, 1, 2, None, None),
    ),
    "mpirun in sbatch, on a daemon's host": (
        {**slurm_step(1, "1(x3)"), **open_mpi(5, 8, 1, 2, "n2.cluster")},
        ("openmpi", 5, 8, 1, 2, None, None),
    ),
    "MPICH's mpiexec": (hydra(2, 3, 2, 3), ("hydra", 2, 3, 2, 3, None, None)),
    "MPICH's mpiexec over srun": (
        {**slurm_step(2, "1(x4)"), **hydra(5, 8, 1, 2)},
        ("hydra", 5, 8, 1, 2, None, None),
    ),
    "horovodrun": (horovod(5, 8, 1, 2), ("horovod", 5, 8, 1, 2, 2, 4)),
    "Cray PALS": (pals(5, 8, 1, 2), ("pals", 5, 8, 1, 2, 2, None)),
}


def who(identity: Identity) -> Who:
    return (*identity[:7],)


@pytest.mark.parametrize(("environment", "expected"), TOLD.values(), ids=TOLD.keys())
def test_a_rank_learns_who_it_is(environment: dict[str, str], expected: Who) -> None:
    assert who(identify(environment)) == expected


def test_each_value_says_which_variable_gave_it() -> None:
    identity = identify({**slurm_step(5), "PMI_RANK": "5", "PMI_SIZE": "8"})
    assert identity.sources == {
        "rank": "PMI_RANK",
        "size": "PMI_SIZE",
        "local_rank": "SLURM_LOCALID",
        "local_size": "SLURM_STEP_TASKS_PER_NODE",
        "node_rank": "SLURM_NODEID",
        "nodes": "SLURM_STEP_NUM_NODES",
        "hosts": "SLURM_STEP_NODELIST",
    }


def test_hosts_begin_with_that_of_rank_0() -> None:
    assert identify(slurm_step(3, "3,1")).hosts == ("n1", "n2")
    assert identify({**batch_script(8), **open_mpi(1, 8, 1, 2, "n1")}).hosts == HOSTS
    assert identify(muster("srun", 5, 8, 1, 2)).hosts == HOSTS
    assert identify(torchrun(0, 1, 0, 1)).hosts == ()


# environment, words that the refusal must hold, words that its hint must hold
REFUSED: dict[str, tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]] = {
    "RANK left by an outer job": (
        {**slurm_step(5), "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"},
        ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ("-u RANK", "-u LOCAL_RANK"),
    ),
    "torchrun's variables left by an outer job": (
        {**slurm_step(1), **torchrun(1, 2, 1, 2)},
        ("torchrun says rank 1 of 2", "rank 1 of 8"),
        ("-u WORLD_SIZE",),
    ),
    "muster's variables left by an outer step": (
        {**slurm_step(1, "1(x4)"), **muster("srun", 1, 8, 1, 2)},
        ("rank 1 of 8 (RANK and WORLD_SIZE)", "rank 1 of 4"),
        ("-u RANK",),
    ),
    "Open MPI's variables left by an outer job, several tasks a node": (
        {**slurm_step(5), **open_mpi(0, 1, 0, 1, "n1")},
        ("Open MPI", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"),
        ("-u OMPI_COMM_WORLD_RANK", "one launcher only"),
    ),
    "Open MPI's variables left by an outer job, one task a node": (
        {**slurm_step(2, "1(x4)"), **open_mpi(0, 1, 0, 1, "n1")},
        ("OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"),
        ("-u OMPI_COMM_WORLD_RANK",),
    ),
    "Open MPI's variables made on another host": (
        {**slurm_step(2, "1(x4)"), **open_mpi(5, 8, 1, 2, "n1")},
        ("rank 5 of 8", "rank 2 of 4"),
        ("-u OMPI_COMM_WORLD_RANK",),
    ),
    "PMIX_RANK left by an outer job": (
        {**slurm_step(5), "PMIX_RANK": "0"},
        ("PMIX_RANK", "SLURM_PROCID"),
        ("-u PMIX_RANK",),
    ),
    "torchrun on each node for itself": (
        {**slurm_step(2, "1(x4)"), **torchrun(1, 2, 1, 2)},
        ("each of the 4 tasks", "world of its own"),
        ("--nnodes", "method='env'"),
    ),
    "mpirun on each node for itself": (
        {**slurm_step(2, "1(x4)"), **open_mpi(1, 2, 1, 2, "n3")},
        ("each of the 4 tasks",),
        ("mpirun",),
    ),
    "no srun before the command": (batch_script(8), ("8 tasks", "SLURM_NTASKS"), ("srun", "dummy")),
    "salloc's own shell": (
        {**slurm_step(0, "1"), "SLURM_STEP_ID": "4294967290", "SLURM_NTASKS": "8"},
        ("8 tasks",),
        ("srun",),
    ),
    "a rank without a size": ({"PMIX_RANK": "3"}, ("PMIX_RANK=3",), ("srun --mpi=pmix",)),
    "RANK without WORLD_SIZE": ({"RANK": "3"}, ("RANK=3", "no number of ranks"), ()),
    "a rank outside the world": ({"RANK": "4", "WORLD_SIZE": "4"}, ("RANK is 4", "WORLD_SIZE is 4"), ("unset",)),
    "a local rank outside the node": (
        {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"},
        ("LOCAL_RANK is 2",),
        ("unset",),
    ),
    "a word for a number": ({"RANK": "$SLURM_PROCID", "WORLD_SIZE": "4"}, ("RANK holds '$SLURM_PROCID'",), ("RANK",)),
    "a negative number": ({"RANK": "-1", "WORLD_SIZE": "4"}, ("'-1'",), ("RANK",)),
}


@pytest.mark.parametrize(("environment", "words", "hints"), REFUSED.values(), ids=REFUSED.keys())
def test_a_conflict_is_refused_with_its_variables_and_the_way_out(
    environment: dict[str, str], words: tuple[str, ...], hints: tuple[str, ...]
) -> None:
    with pytest.raises(WireupError) as refused:
        identify(environment)
    assert all(word in refused.value.message for word in words), refused.value.message
    assert refused.value.hint
    assert all(word in refused.value.hint for word in hints), refused.value.hint


def test_a_named_family_is_read_alone() -> None:
    stale = {**slurm_step(5), **open_mpi(0, 1, 0, 1, "n1")}
    assert who(identify(stale, "slurm")) == ("slurm", 5, 8, 1, 2, 2, 4)
    apart = {**slurm_step(2, "1(x4)"), **torchrun(1, 2, 1, 2)}
    assert who(identify(apart, "env")) == ("env", 1, 2, 1, 2, 0, 1)


def test_a_named_family_that_numbers_daemons_is_refused() -> None:
    under_mpirun = {**slurm_step(1, "1(x3)"), **open_mpi(5, 8, 1, 2, "n2")}
    with pytest.raises(WireupError, match="numbers the agents of Open MPI"):
        identify(under_mpirun, "slurm")


@pytest.mark.parametrize(
    ("family", "words"),
    [("pmi", "srun --mpi=pmi2"), ("pmix", "srun --mpi=pmix"), ("openmpi", "mpirun"), ("slurm", "start with srun")],
)
def test_a_missing_family_says_how_to_start(family: str, words: str) -> None:
    with pytest.raises(WireupError) as refused:
        identify({"RANK": "0", "WORLD_SIZE": "1"}, family)
    assert words in (refused.value.hint or "")


def test_slurms_tasks_per_node() -> None:
    assert tasks_per_node("2(x3),1") == [2, 2, 2, 1]
    assert tasks_per_node("4") == [4]
    assert tasks_per_node("") == tasks_per_node("x") == tasks_per_node("2(x99999999999)") == []


NAMES = sorted({name for family in FAMILIES for name in (*family.marks, *family.variables, *family.nodes)})


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["0", "1", "2", "8", "x", "", "-1", "²"])))
def test_any_environment_gives_an_identity_or_a_sentence(environment: dict[str, str]) -> None:
    try:
        identity = identify({**SLURM_JOB, **environment})
    except WireupError as refused:
        said = str(refused)
    else:
        said = "ok"
        assert 0 <= identity.rank < identity.size
        assert identity.local_rank is None or identity.local_rank >= 0
    assert said
