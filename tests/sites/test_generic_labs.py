"""Clusters without a profile: the ordinary requests are planned from Slurm's word, taken by Slurm, and bound right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plugins.labs import Person

from .generic_labs import GENERIC, GenericLab
from .labs_as_alice import copy_muster, header_lines, lab_of, muster_of_alice, words_of_size, would_take

SAYS = "echo rank=$RANK of=$WORLD_SIZE gpus=$(echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | grep -c .)"


def test_more_than_half_of_the_clusters_are_made_after_public_files() -> None:
    assert len({lab.name for lab in GENERIC}) == 32
    assert sum(lab.is_public for lab in GENERIC) == 21


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("case", GENERIC, ids=str)
def test_ordinary_requests_are_taken_and_bound_right(
    case: GenericLab, tester: Person, scratch: Path, shared_directory: Path
) -> None:
    folder = copy_muster(scratch / "muster-for-all")
    nodes = case.gpu_nodes
    with lab_of(case.spec, tester) as lab:
        if case.without_default:
            typed = ["scontrol", "update", f"PartitionName={case.without_default}", "Default=NO"]
            assert lab.exec(typed).ok
        for words in words_of_size(case.gpus):
            if "-N" in words and nodes == 1:
                continue
            planned = muster_of_alice(lab, folder, "plan", *words, "-t", "30", "--", "python", "train.py")
            assert planned.status == 0, (words, planned.stderr)
            taken = would_take(lab, planned.stdout)
            assert taken.status == 0, (words, taken.stderr, header_lines(planned.stdout))
        if not case.gives_steps_gpus:
            return
        size = ["-g", str(case.gpus)] if case.gpus else ["--ntasks-per-node", "1"]
        typed = ["run", "--quiet", "-N", str(nodes), *size, "-t", "5", "--", "sh", "-c", SAYS]
        ran = muster_of_alice(lab, folder, *typed, cwd=shared_directory)
    assert ran.status == 0, ran.stderr
    ranks = re.findall(r"rank=(\d+) of=(\d+) gpus=(\d+)", ran.stdout)
    size_of_world = nodes * (case.gpus or 1)
    assert sorted(int(rank) for rank, _, _ in ranks) == list(range(size_of_world))
    assert {(int(world), int(gpus)) for _, world, gpus in ranks} == {(size_of_world, case.gpus)}
