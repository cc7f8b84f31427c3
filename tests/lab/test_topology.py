"""On a real cluster: hosts under switches and in blocks; no group of a job that Slurm places is split over a block."""

from __future__ import annotations

import random
import re

import pytest

from muster.rank.hostlist import expand
from muster.runner import checked
from plugins.labs import lab_up

pytestmark = pytest.mark.lab
HOSTS, BLOCK = 16, 4


def test_each_task_knows_its_switch(tester: object) -> None:
    with lab_up(tester, "tree", "-N", "4", "--topology", "tree:2") as lab:  # type: ignore[arg-type]
        told = checked(lab.exec(["srun", "-l", "-N4", "sh", "-c", "echo $SLURM_TOPOLOGY_ADDR"])).stdout
    assert sorted(told.splitlines()) == [
        "0: top.s1.node1",
        "1: top.s1.node2",
        "2: top.s2.node3",
        "3: top.s2.node4",
    ]


@pytest.mark.parametrize("tries", [50, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.versions
def test_no_group_of_a_placed_job_is_split_over_a_block(tester: object, tries: int) -> None:
    """Slurm says where each job would run, while hosts taken by chance are kept from it."""
    chance = random.Random(34)  # noqa: S311
    jobs = [(2, 6, "node[1-9,15]")]  # three hosts of each of two blocks are left: without --segment Slurm takes these
    for _ in range(tries - 1):
        size = chance.choice([1, 2, 4])
        hosts = chance.sample(range(1, HOSTS + 1), chance.randint(1, 6))
        jobs.append((size, size * chance.randint(1, 6 // size + 1), ",".join(f"node{host}" for host in hosts)))
    words = [
        f"sbatch --test-only -N {nodes} --segment={size} -x {taken} --wrap true 2>&1 | tail -1"
        for size, nodes, taken in jobs
    ]
    options = ["-N", str(HOSTS), "--topology", f"block:{BLOCK}", "--slurm", "24.11"]
    with lab_up(tester, "blocks", *options) as lab:  # type: ignore[arg-type]
        answers = checked(lab.exec(["sh", "-c", "\n".join(words)])).stdout.splitlines()
    placed = 0
    for (size, _, _), answer in zip(jobs, answers):
        match = re.search(r"on nodes (\S+) in partition", answer)
        if match is None:
            assert "configuration is not available" in answer, answer
            continue
        numbers = sorted(int(name.removeprefix("node")) for name in expand(match[1]))
        for start in range(0, len(numbers), size):
            assert len({(number - 1) // BLOCK for number in numbers[start : start + size]}) == 1, (size, answer)
        placed += 1
    assert len(answers) == tries
    assert placed > tries / 2, answers[:5]
    print(f"{placed} of {tries} jobs placed")
