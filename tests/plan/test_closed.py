"""Guards what a closed job is in the plan: the door in the script, its secret in no word, and where it is refused."""

from __future__ import annotations

import re

import pytest

from launch.plans import plan
from muster.errors import RequestError
from muster.model.plan import Plan
from muster.render.explain import explain
from muster.render.script import job_script


def who_may_join(made: Plan) -> str:
    return next(text for _, text, reason in explain(made) if "store" in reason.text)


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_the_secret_stands_in_no_word_of_a_command(launcher: str) -> None:
    script = job_script(plan("-N", "2", "--closed", "--launcher", launcher, "--", "python", "train.py"))

    job = script[: script.index("# ----")]
    assert "muster_make_door_key" in job
    assert "MUSTER_DOOR_KEY" not in job
    # It is exported by the function, read by the door, unset before the ranks: never an argument.
    lines = [line.strip() for line in script.splitlines() if "MUSTER_DOOR_KEY" in line]
    assert [line for line in lines if re.search(r"exec|srun|\$@|echo|printf", line)] == []


def test_a_job_that_is_not_closed_has_no_door_and_says_who_may_join() -> None:
    open_plan, closed_plan = (
        plan(*words, "--", "python", "train.py") for words in (("-N", "2"), ("-N", "2", "--closed"))
    )

    assert "door" not in job_script(open_plan)
    assert who_may_join(open_plan) == "every process that reaches that port can join"
    assert who_may_join(closed_plan) == "only your processes on the job's nodes reach the store"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--launcher", "mpirun"), "which mpirun cannot carry to other hosts"),
        (("--image", "docker://a/b:1"), "--closed was never tried with an image"),
    ],
)
def test_where_it_cannot_be_kept_it_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        plan("-N", "2", "--closed", *words, "--", "python", "train.py")
