"""How large a run over a standing allocation is, from what salloc, sbatch and srun leave in the environment."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from muster.errors import RequestError
from muster.facts import Facts
from muster.job.options import parse, request_from
from muster.job.request import Request
from muster.look.place import RunPlace, place_of, refuse_in_every_rank
from muster.look.size import sized_by_allocation
from muster.runner import ProgramResult

# As salloc on the login host leaves them; 22.05, 24.11 and 26.05 agree on these.
TWO_NODES = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_CPUS_PER_NODE": "8(x2)"}


def test_a_shell_of_salloc_for_two_parts_stands_in_its_allocation() -> None:
    """`muster run` left it, and queued a job of its own: there is a list of nodes for each part only."""
    environment = {"SLURM_JOB_ID": "7", "SLURM_HET_SIZE": "2", "SLURM_JOB_NODELIST_HET_GROUP_0": "n1"}
    values, origins, command = parse(["--", "x"])
    request, facts = request_from({}, values, origins, command), Facts(environment=environment)

    assert place_of(request, facts) == (RunPlace.WITHIN, "inside job 7")
    with pytest.raises(RequestError, match="job 7 is heterogeneous"):
        sized_by_allocation(request, facts)


def sized(environment: Mapping[str, str], *words: str, gres: str = "N/A") -> Request:
    values, origins, command = parse([*words, "--", "x"])

    def squeue(argv: object, **_: object) -> ProgramResult:
        return ProgramResult(("squeue",), 0, f"{gres}\n", "")

    return sized_by_allocation(
        request_from({}, values, origins, command), Facts(environment={**TWO_NODES, **environment}), squeue
    )


@pytest.mark.parametrize(
    ("environment", "words", "gres", "expected"),
    [
        ({"SLURM_NTASKS_PER_NODE": "3", "SLURM_CPUS_PER_TASK": "2"}, (), "N/A", (2, 3, None, 2)),
        ({"SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "2(x2)"}, (), "N/A", (2, 2, None, None)),
        ({"SLURM_TASKS_PER_NODE": "1(x2)"}, (), "N/A", (2, None, None, None)),
        ({"SLURM_GPUS_PER_NODE": "volta:2"}, (), "N/A", (2, None, 2, None)),
        ({"SLURM_GPUS": "8"}, ("--ntasks-per-node", "2"), "N/A", (2, 2, None, None)),
        ({"SLURM_GPUS": "a100:4", "SLURM_JOB_NUM_NODES": "1"}, (), "N/A", (1, None, 4, None)),
        ({}, (), "gres:gpu:2", (2, None, 2, None)),
        ({}, (), "gres/gpu:volta:2", (2, None, 2, None)),
        ({"SLURMD_NODENAME": "n1", "SLURM_GPUS_ON_NODE": "4"}, (), "N/A", (2, None, 4, None)),
        ({"SLURMD_NODENAME": "n1"}, (), "gres/gpu:4", (2, None, None, None)),
        ({"SLURM_GPUS_ON_NODE": "4"}, (), "N/A", (2, None, 4, None)),
        ({"SLURM_NTASKS": "5", "SLURM_TASKS_PER_NODE": "3,2"}, ("-g", "2"), "N/A", (2, None, 2, None)),
        ({}, ("-w", "n1"), "N/A", (2, None, None, None)),  # which nodes it has, is not told
        # -c of an allocation for one task: its ranks share it.
        ({"SLURM_GPUS_PER_NODE": "4", "SLURM_CPUS_PER_TASK": "8"}, (), "N/A", (2, None, 4, 2)),
        (
            {"SLURM_NTASKS_PER_NODE": "3", "SLURM_CPUS_PER_TASK": "2"},
            ("--ntasks-per-node", "4"),
            "N/A",
            (2, 4, None, None),
        ),
        ({"SLURM_NTASKS_PER_NODE": "1", "SLURM_CPUS_PER_TASK": "8"}, ("-g", "4"), "N/A", (2, None, 4, 2)),
        ({"SLURM_NTASKS": "5", "SLURM_TASKS_PER_NODE": "3,2"}, ("--ntasks-per-node", "2"), "N/A", (2, 2, None, None)),
        # Inside a step the number of tasks is the step's.
        ({"SLURM_STEP_ID": "0", "SLURM_NTASKS": "1", "SLURM_TASKS_PER_NODE": "1"}, (), "N/A", (2, None, None, None)),
    ],
)
def test_what_was_not_asked_for_is_what_the_allocation_has(
    environment: Mapping[str, str], words: tuple[str, ...], gres: str, expected: tuple[int | None, ...]
) -> None:
    found = sized(environment, *words, gres=gres)

    assert (found.nodes, found.ntasks_per_node, found.gpus_per_node, found.cpus_per_task) == expected
    assert found.origin("nodes") == "the allocation"


@pytest.mark.parametrize(
    ("environment", "words", "sentence", "hint"),
    [
        (
            {"SLURM_NTASKS": "5", "SLURM_TASKS_PER_NODE": "3,2"},
            (),
            "not the same number on each node",
            "--ntasks-per-node 2",
        ),
        (
            {},
            ("--ntasks-per-node", "9"),
            "2 nodes × 9 ranks × 1 CPUs = 18 CPUs, but this allocation has 16",
            "allocate with --ntasks-per-node 9",
        ),
        ({}, ("--ntasks-per-node", "2", "-c", "5"), "2 nodes × 2 ranks × 5 CPUs = 20 CPUs", "-c 5"),
    ],
)
def test_what_the_allocation_cannot_hold_is_refused_before_srun_is_asked(
    environment: Mapping[str, str], words: tuple[str, ...], sentence: str, hint: str
) -> None:
    with pytest.raises(RequestError, match=sentence) as refused:
        sized(environment, *words)

    assert hint in (refused.value.hint or "")


def test_gpus_of_which_only_the_sum_is_known_are_refused_and_no_guess() -> None:
    with pytest.raises(RequestError, match="8 GPUs in all") as refused:
        sized({"SLURM_GPUS": "8"})

    assert "-g GPUS_PER_NODE" in (refused.value.hint or "")


def test_ranks_that_fit_on_unlike_nodes_are_left_to_srun() -> None:
    assert sized({"SLURM_JOB_CPUS_PER_NODE": "3,1"}, "--ntasks-per-node", "2").ntasks_per_node == 2


RANK_OF_A_STEP = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}


@pytest.mark.parametrize(
    "environment",
    [RANK_OF_A_STEP, {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, {"PMI_RANK": "3", "PMI_SIZE": "4"}],
)
def test_a_run_that_every_rank_would_start_is_refused(environment: Mapping[str, str]) -> None:
    with pytest.raises(RequestError, match="each of them would start the whole run") as refused:
        refuse_in_every_rank(environment, on_terminal=False)

    assert "unset" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("environment", "on_terminal"),
    [
        (RANK_OF_A_STEP, True),  # srun -n4 --pty bash: the others have no terminal, and have ended
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"OMPI_COMM_WORLD_RANK": "5", "PMI_RANK": "6"}, False),
        ({}, False),
    ],
)
def test_a_run_in_the_only_task_of_a_step_starts(environment: Mapping[str, str], on_terminal: bool) -> None:
    refuse_in_every_rank(environment, on_terminal=on_terminal)
