"""A site has changed since its documents were read: the plan follows the cluster, and names the change.

The oracle is the lab's own Slurm: what Muster plans there `sbatch --test-only` takes, and what Muster refuses there
`sbatch --test-only` refuses of the script that rests on the profile alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.labs import Person

from .changed_labs import (
    CHANGES,
    NUMBER,
    SECOND_NUMBER,
    THIRD_NUMBER,
    ChangedLab,
    changed_labs,
    header_of,
    made,
    second_labs,
    third_labs,
)
from .labs_as_alice import copy_muster, header_lines, lab_of, muster_of_alice, would_take

LABS = tuple(changed_labs())
SECOND = tuple(second_labs())
THIRD = tuple(third_labs())
# What the plan shows of a change that Slurm takes either way.
SHOWN = {"preempting": "--requeue", "little-memory": "--mem", "reservation": "reserved (maintenance)"}


def test_the_changes_are_drawn_evenly() -> None:
    assert len(LABS) == NUMBER
    assert len({lab.site for lab in LABS}) == 20
    assert {lab.change for lab in LABS} == set(CHANGES)
    assert len({str(lab) for lab in SECOND}) == SECOND_NUMBER
    assert len({lab.site for lab in THIRD}) == len({lab.change for lab in THIRD}) == THIRD_NUMBER


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("case", [*LABS, *SECOND, *THIRD], ids=str)
def test_the_plan_follows_the_cluster_and_names_the_change(case: ChangedLab, tester: Person, scratch: Path) -> None:
    folder = copy_muster(scratch / "muster-for-all")
    spec, words, typed_by_root = made(case)
    bare = header_of(words, case.site)
    assert bare is not None
    with lab_of(spec, tester) as lab:
        for typed in typed_by_root:
            assert lab.exec(typed).ok
        planned = muster_of_alice(lab, folder, "plan", "--fresh", *words, "--", "python", "train.py")
        is_bare_taken = would_take(lab, bare).status == 0
        if planned.status == 0:
            taken = would_take(lab, planned.stdout)
            is_told = any(words in planned.stderr for words in ("is closed to this job", "the job waits: "))
            assert taken.status == 0 or is_told, (
                f"Slurm: {taken.stderr}\nMuster: {planned.stderr}\n{header_lines(planned.stdout)}"
            )
            assert SHOWN.get(case.change, "") in planned.stderr + header_lines(planned.stdout)
        else:
            assert not is_bare_taken, f"Slurm takes what Muster refuses: {planned.stderr}"
        assert is_bare_taken or "what Slurm says here" in planned.stderr, planned.stderr
        named = planned.stderr + header_lines(planned.stdout)
        assert is_bare_taken or not case.signs or any(sign in named for sign in case.signs), named
