"""On a real cluster: several `muster run` in one job, as docs/guides/beside-the-trainer.md shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import MUSTER, Lab

from .lab_runs import path_with, wait_until_ended

pytestmark = pytest.mark.lab

SAYS = "echo $1 rank $RANK of $WORLD_SIZE on $(hostname) at $MASTER_ADDR gpus ${CUDA_VISIBLE_DEVICES:-none}"
NODES_OF_THEIR_OWN = f"""#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1 --time=5
first=$(scontrol show hostnames | head -n 1)
{MUSTER} run -N 1 -w "$first" -- sh -c '{SAYS}; sleep 300' sh server &
server=$!
{MUSTER} run -N 2 -x "$first" -- sh -c '{SAYS}; exit 3' sh trainer
status=$?
kill "$server"
wait "$server"
exit "$status"
"""


def output_of(lab: Lab, folder: Path, script: str, state: str) -> str:
    (folder / "job.sh").write_text(script)
    argv = ["sbatch", "--parsable", "--output=out", "job.sh"]
    job = checked(lab.exec(argv, cwd=folder, env={"PATH": path_with()})).stdout.strip()
    assert wait_until_ended(lab, job) == state
    return (folder / "out").read_text()


def test_a_server_and_a_trainer_have_nodes_of_their_own(lab: Lab, shared_directory: Path) -> None:
    text = output_of(lab, shared_directory, NODES_OF_THEIR_OWN, "FAILED")

    assert "server rank 0 of 1 on node1 at node1" in text
    assert "trainer rank 0 of 2 on node2 at node2" in text
    assert "trainer rank 1 of 2 on node3 at node2" in text
