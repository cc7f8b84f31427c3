"""What the script of a job takes for the first cause, from lines that Slurm wrote on a lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.render.parts import compose
from muster.runner import checked, run

_TOLD = """
muster_files=("$1") muster_status=$2 muster_reason=/dev/null muster_saved='' muster_lines=labelled muster_logs=/nowhere
muster_find_cause
printf '%s' "$muster_cause"
"""


@pytest.mark.parametrize(
    ("status", "lines", "cause"),
    [
        (
            137,
            [
                "srun: error: node3: task 2: Killed",
                "srun: error: Node failure on node4",
                "srun: error: node1: task 0: Killed",
            ],
            "node4 failed",
        ),
        (
            7,
            ["srun: error: node2: tasks 1,3: Exited with exit code 7", "srun: error: node1: task 0: Terminated"],
            "rank 1 on node2: exit status 7",
        ),
        (
            137,
            [
                "1: slurmstepd-node2: error: StepId=8.0 exceeded memory limit (231182336 > 209715200), being killed",
                "srun: error: node3: task 2: Killed",
            ],
            "Slurm ended the ranks: on node2 they used 220 MiB of memory, and had 200",
        ),
        (
            137,
            ["slurmstepd: error: StepId=4.0 exceeded memory limit (8589934592 > 4294967296), being killed"],
            "Slurm ended the ranks: they used 8192 MiB of memory, and had 4096",
        ),
        (200, ["srun: error: node2: task 1: Exited with exit code 200"], "rank 1 on node2: exit status 200"),
        (137, ["srun: error: node2: task 1: Killed"], "rank 1 on node2: ended by SIGKILL"),
    ],
)
def test_of_srun(tmp_path: Path, status: int, lines: list[str], cause: str) -> None:
    (tmp_path / "said").write_text("\n".join([*lines, ""]))
    script = compose(("again", "told_srun")) + _TOLD

    done = checked(run(["bash", "-c", script, "bash", str(tmp_path / "said"), str(status)]))
    assert done.stdout == cause
