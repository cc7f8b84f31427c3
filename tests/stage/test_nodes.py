"""`muster stage`: what it asks of the nodes, and what it makes of their answers; a runner notes the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.errors import CommandFailed, RequestError
from muster.model.plan import Reason, Staged
from muster.runner import ProgramResult
from muster.stage.nodes import clean, copy_to_nodes, need_allocation

_THING = Staged("data", "data", ("/scratch/data",), "/scratch/.muster-stage/data", (), Reason("set by you"))
_JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NUM_NODES": "3",
    "SLURM_JOB_NODELIST": "n[1-3]",
    "SRUN_DEBUG": "1",
    "SLURM_NTASKS": "9",
}


class _Runner:
    """Answers every question the same way, and notes it."""

    def __init__(self, status: int, out: str = "", errors: str = "") -> None:
        self.status, self.out, self.errors = status, out, errors
        self.asked: list[tuple[Sequence[str], Mapping[str, str]]] = []

    def __call__(self, argv: Sequence[str], **more: Any) -> ProgramResult:
        self.asked.append((argv, more["env"]))
        return ProgramResult(tuple(argv), self.status, self.out, self.errors)


@pytest.mark.parametrize(
    ("out", "errors", "path", "local", "trouble", "news"),
    [
        ("/local/m/data\n", "", "/local/m/data", True, (), ()),
        ("/local/m/data\n", "muster: packed 3 GB\nx\n", "/local/m/data", True, (), ("muster: packed 3 GB",)),
        ("", "muster: warning: n2 has no room\n", "/scratch/data", False, ("n2 has no room",), ()),
        ("/local/m/data\n", "muster: warning: old\nmuster: a\n", "/local/m/data", True, ("old",), ("muster: a",)),
    ],
)
def test_where_a_copy_lies_and_what_the_nodes_said(
    out: str, errors: str, path: str, local: bool, trouble: tuple[str, ...], news: tuple[str, ...]
) -> None:
    copy = copy_to_nodes(_THING, Path("/local/m"), _JOB, _Runner(0, out, errors))

    assert (copy.path, copy.is_local, copy.trouble, copy.news) == (Path(path), local, trouble, news)


def test_nodes_that_say_nothing_are_an_error() -> None:
    with pytest.raises(CommandFailed):
        copy_to_nodes(_THING, Path("/local/m"), _JOB, _Runner(1, "", "srun: error: x"))


@pytest.mark.parametrize(("nodes", "count"), [("3", "3"), ("", "1")])
def test_old_copies_are_removed_on_every_node(nodes: str, count: str) -> None:
    runner = _Runner(0, "cleaned\ncleaned\n")
    environment = {**_JOB, "SLURM_JOB_NUM_NODES": nodes, "SLURM_JOB_NODELIST": "n[1-3]" if nodes else ""}

    assert clean(Path("/local/m"), 2, environment, runner) == 2
    ((words, sent),) = runner.asked
    assert set(sent) == set(environment) - {"SLURM_NTASKS"}
    text = " ".join(words)
    assert "-mmin +2880" in text
    assert f"--nodes={count} " in text


def test_nodes_that_cannot_be_cleaned_are_an_error_and_without_an_allocation_there_are_none() -> None:
    with pytest.raises(CommandFailed):
        clean(Path("/local/m"), 2, _JOB, _Runner(1))
    with pytest.raises(RequestError, match="no allocation"):
        clean(Path("/local/m"), 2, {}, _Runner(0))
    with pytest.raises(RequestError, match="no allocation"):
        need_allocation({})
    need_allocation(_JOB)
