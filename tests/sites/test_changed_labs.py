"""A site has changed since its documents were read: the plan follows the cluster, and names the change.

The oracle is the lab's own Slurm: what Muster plans there `sbatch --test-only` takes, and what Muster refuses there
`sbatch --test-only` refuses of the script that rests on the profile alone.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from muster.errors import MachineLacks
from muster_lab import labs
from plugins.labs import Lab, Person

from .changed_labs import CHANGES, NUMBER, ChangedLab, changed_labs, header_of

LABS = tuple(changed_labs())


def test_the_changes_are_drawn_evenly() -> None:
    assert len(LABS) == NUMBER
    assert len({lab.site for lab in LABS}) == 20
    assert {lab.change for lab in LABS} == set(CHANGES)


@pytest.fixture(scope="module")
def muster_for_all(scratch: Path) -> Path:
    """A folder with Muster and what it needs, which the lab's ordinary user may read."""
    folder = scratch / "muster-for-all"
    for name in ("muster", "muster_lint", "muster_lab", "muster_build", "muster_bench", "muster_check", "msgspec"):
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        shutil.copytree(Path(found.origin).parent, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def changed_lab(request: pytest.FixtureRequest, tester: Person) -> Iterator[tuple[ChangedLab, Lab]]:
    case: ChangedLab = request.param
    try:
        labs.up(case.spec, tester.environment(), lambda _: None)
    except MachineLacks as error:
        pytest.skip(error.message)
    try:
        yield case, Lab(tester, case.spec.name)
    finally:
        labs.down(case.spec.name, tester.environment())


# What the plan itself shows of a change that Slurm takes either way.
SHOWN_IN_HEADER = {"preempting": "--requeue", "little-memory": "--mem"}
# Changes after which the very same job may still be right.
MAY_STAY = {"more-threads", "little-memory", "less-memory", "preempting", "qos-needed", "removed"}


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("changed_lab", LABS, ids=str, indirect=True)
def test_the_plan_follows_the_cluster_and_names_the_change(
    changed_lab: tuple[ChangedLab, Lab], muster_for_all: Path
) -> None:
    case, lab = changed_lab
    python = (
        Path(sys.base_prefix, "bin", "python3") if not sys.base_prefix.startswith("/root") else Path("/usr/bin/python3")
    )
    argv = [str(python), "-m", "muster", "plan", *case.words, "--", "python", "train.py"]
    environment = {"PYTHONPATH": str(muster_for_all), "PYTHONDONTWRITEBYTECODE": "1"}
    planned = lab.exec(argv, user="alice", env=environment)
    assert "Traceback" not in planned.stderr
    bare = header_of(case.words, case.site)
    assert bare is not None
    said = planned.stderr
    if planned.status == 0:
        taken = lab.exec(["sbatch", "--test-only"], user="alice", stdin=planned.stdout)
        assert taken.status == 0, f"Slurm: {taken.stderr}\nMuster: {said}\n{_header(planned.stdout)}"
        if case.change in SHOWN_IN_HEADER:
            assert SHOWN_IN_HEADER[case.change] in _header(planned.stdout), _header(planned.stdout)
    else:
        taken = lab.exec(["sbatch", "--test-only"], user="alice", stdin=bare)
        assert taken.status != 0, f"Slurm takes what Muster refuses: {said}"
    if case.change not in MAY_STAY:
        assert "what Slurm says here" in said, said


def _header(script: str) -> str:
    return "\n".join(line for line in script.splitlines() if line.startswith("#SBATCH"))
