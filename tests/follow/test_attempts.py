"""What became of the runs of a job before its last, by the files that they left."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.plans import plan
from muster.act.record import Run
from muster.follow.attempt_list import AttemptEnd
from muster.follow.attempts import ends_of_earlier
from muster.render.document import plan_as_json


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (143, "it was put back into the queue"),  # the rank says what Slurm did to it
        (7, "rank 1 on node2: exit status 7"),
    ],
)
def test_a_rank_that_slurm_ended_is_no_cause_of_a_requeue(tmp_path: Path, status: int, cause: str) -> None:
    words = ("--launcher", "mpirun", "-N", "2", "--ntasks-per-node", "1", "--requeue", "-t", "10", "--", "python")
    (tmp_path / "plan.json").write_text(plan_as_json(plan(*words)))
    (tmp_path / "attempts").write_text("1\t1700000000\tnode[1-2]\t\n2\t1700000100\tnode[1-2]\t\n")
    (tmp_path / "logs").mkdir()
    report = f"[1,1]<stderr>:muster: rank 1 on node2 ended with status {status}\n"
    (tmp_path / "logs/ranks.log").write_text(report)
    run = Run("7", tmp_path, "train", "lab", 1700000000, "d")

    assert list(ends_of_earlier(run, None, waits=False)) == [f"second run: {cause} in the first"]


def test_an_end_without_a_cause_has_none_in_json() -> None:
    made = [AttemptEnd(1, 0, 1, 7, 0, "n1", "restart", cause, "started again").as_json() for cause in ("", "a fault")]
    assert [each["cause"] for each in made] == [None, "a fault"]
