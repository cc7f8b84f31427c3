"""On a real cluster: several `muster run` in one job, as docs/guides/roles.md shows them."""

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
{MUSTER} run -N 1 -w "$first" -- sh -c '{SAYS}; touch "$0/up"; sleep 300' "$PWD" server &
server=$!
{MUSTER} run -N 2 -x "$first" -- sh -c '{SAYS}; touch "$0/said-$RANK"
until [ -e "$0/up" ] && [ -e "$0/said-0" ] && [ -e "$0/said-1" ]; do sleep 0.1; done; exit 3' "$PWD" trainer
status=$?
kill "$server"
wait "$server"
exit "$status"
"""


def run_script(lab: Lab, folder: Path, script: str, state: str) -> tuple[str, str]:
    """Return what a batch script wrote, and what `why` says of its job."""
    (folder / "job.sh").write_text(script)
    argv = ["sbatch", "--parsable", "--output=out", "job.sh"]
    job = checked(lab.exec(argv, cwd=folder, env={"PATH": path_with()})).stdout.strip()
    assert wait_until_ended(lab, job) == state
    return (folder / "out").read_text(), checked(lab.exec([MUSTER, "why", job])).stdout


def test_a_server_and_a_trainer_have_nodes_of_their_own(lab: Lab, shared_directory: Path) -> None:
    text, _ = run_script(lab, shared_directory, NODES_OF_THEIR_OWN, "FAILED")

    assert "server rank 0 of 1 on node1 at node1" in text
    assert "trainer rank 0 of 2 on node2 at node2" in text
    assert "trainer rank 1 of 2 on node3 at node2" in text


SHARED = f"""#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=4 --ntasks-per-node=4 --time=5
{MUSTER} run -g 2 --ntasks-per-node 1 --srun=--exact -- sh -c '{SAYS}; mkfifo "$0/asked"; read line <"$0/asked"
echo asked by $line; exit 5' "$PWD" server &
{MUSTER} run -g 2 --ntasks-per-node 2 --srun=--exact -- sh -c '{SAYS}; [ $RANK != 0 ] || {{
until [ -p "$0/asked" ]; do sleep 0.1; done; echo trainer >"$0/asked"; }}' "$PWD" trainer
status=$?
wait
exit "$status"
"""
BESIDE_EACH = f"""#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=4 --ntasks-per-node=2 --time=5
{MUSTER} run --ntasks-per-node 1 -g 4 --srun=--overlap -- sh -c '{SAYS}
touch "$0/up-$(hostname)"; sleep 300' "$PWD" server &
server=$!
{MUSTER} run --ntasks-per-node 2 -g 4 --srun=--overlap -- sh -c '{SAYS}
until [ -e "$0/up-$(hostname)" ]; do sleep 0.1; done' "$PWD" trainer
status=$?
kill "$server"
wait "$server"
exit "$status"
"""


def test_a_server_and_a_trainer_share_the_gpus_of_a_node_and_why_tells_of_the_server(
    lab: Lab, shared_directory: Path
) -> None:
    text, told = run_script(lab, shared_directory, SHARED, "COMPLETED")

    assert "asked by trainer" in text
    gpus = {line.rsplit(maxsplit=1)[-1] for line in text.splitlines() if " gpus " in line}
    assert gpus == {"0,1", "2,3"}
    assert "trainer rank 1 of 2" in text
    assert "but a step in it failed, and its script went on: first: rank 0 on node1: exit status 5" in told


def test_a_server_stands_beside_each_trainer_and_its_end_is_no_failure(lab: Lab, shared_directory: Path) -> None:
    text, told = run_script(lab, shared_directory, BESIDE_EACH, "COMPLETED")

    for line in ("server rank 1 of 2 on node2", "trainer rank 3 of 4 on node2"):
        assert f"{line} at node1 gpus 0,1,2,3" in text
    assert "failed" not in told
