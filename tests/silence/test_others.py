"""Verbs that do without Slurm's word say the same under every kind of silence, and offer nothing that nobody named."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from .cluster import PYTHON, Silences, Verb
from .kinds import KINDS, Kind

ALLOCATION = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "node1",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_NNODES": "1",
    "SLURM_JOB_CPUS_PER_NODE": "8",
    "SLURM_TASKS_PER_NODE": "1",
}
STAGE = Verb(("stage", "/etc/hostname"), needs=(), environment=ALLOCATION)
TAB = Verb(("completion", "--for", "bash", "--", "why", ""), needs=())


def _cases(kinds: Iterable[Kind]) -> list[object]:
    """Return each sixth kind for `make test`, and the rest for `make test-long`."""
    return [
        pytest.param(kind, id=kind.name, marks=() if number % 6 == 0 else pytest.mark.long)
        for number, kind in enumerate(kinds)
    ]


@pytest.fixture(scope="module")
def silences(tmp_path_factory: pytest.TempPathFactory) -> Silences:
    return Silences(tmp_path_factory.mktemp("silence"), pytest.MonkeyPatch())


@pytest.mark.parametrize("words", [("plan", "-N", "1", "--", "COMMAND"), (PYTHON, "plan", "COMMAND")])
def test_a_plan_asks_for_facts_and_starts_nothing(silences: Silences, words: tuple[str, ...]) -> None:
    end = silences.end(Verb(words, needs=()), Kind("healthy", (), "@healthy"))

    assert end.result is not None
    assert (end.result.status, end.has_started) == (0, False), end.result.stderr
    assert {line.split()[0] for line in end.asked if not line.startswith("right answer")} <= {"scontrol", "sacctmgr"}


@pytest.mark.parametrize("kind", _cases(KINDS))
def test_a_tab_offers_no_job_that_nobody_named(silences: Silences, kind: Kind) -> None:
    end = silences.end(TAB, kind)

    assert end.result is not None
    # The shells' functions pass over what stands on stderr, and then offer the names of files.
    assert end.result.status in {0, 3}
    assert "Traceback" not in end.result.stderr
    assert "a bug in Muster" not in end.result.stderr
    assert end.result.stdout in {"", "7\n"}
    assert not kind.is_answer or end.result.stdout == "7\n"


@pytest.mark.parametrize("kind", _cases(kind for kind in KINDS if not kind.hangs))
def test_what_no_node_took_is_not_staged_and_that_is_said(silences: Silences, kind: Kind) -> None:
    end = silences.end(STAGE, kind)

    assert end.result is not None
    assert (end.result.status, end.result.stdout) == (0, "/etc/hostname\n"), end.result.stderr
    assert "muster: warning: nothing is staged: " in end.result.stderr
    assert "; all ranks use the shared files" in end.result.stderr
