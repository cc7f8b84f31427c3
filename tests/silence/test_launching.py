"""No verb that launches or plans takes silence for an answer: every kind of silence, under every verb that asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cluster import Silences, Verb
from .kinds import KINDS, Kind

VERBS = {
    "run": Verb(("run", "-N", "1", "--", "COMMAND"), needs=("scontrol", "sbatch", "salloc")),
    "run -N 2": Verb(("run", "-N", "2", "--", "COMMAND"), needs=("scontrol",)),
    "run -p main": Verb(("run", "-N", "2", "-p", "main", "-t", "10", "--", "COMMAND"), needs=("scontrol",)),
    "submit": Verb(("submit", "-N", "1", "--", "COMMAND"), needs=("sbatch",)),
    "shell": Verb(("shell", "--", "COMMAND"), needs=("scontrol", "sbatch", "salloc")),
    "check": Verb(("check", "-N", "1"), needs=("scontrol",), healthy_status=1),
    "queues": Verb(("queues",), needs=("sinfo", "squeue")),
    "queues --json": Verb(("queues", "--json"), needs=("sinfo", "squeue")),
    "site probe": Verb(("site", "probe"), needs=("sinfo", "scontrol"), names=("srun", "sacctmgr")),
    "site check": Verb(("site", "check"), needs=("sinfo", "scontrol"), names=("srun", "sacctmgr")),
    "site report": Verb(("site", "report"), needs=("sinfo", "scontrol"), names=("srun", "sacctmgr")),
}


@pytest.fixture(scope="module")
def silences(tmp_path_factory: pytest.TempPathFactory) -> Silences:
    return Silences(tmp_path_factory.mktemp("silence"), pytest.MonkeyPatch())


def test_there_are_sixty_kinds() -> None:
    assert len({kind.name for kind in KINDS}) >= 60


@pytest.mark.parametrize("name", VERBS)
def test_a_healthy_cluster_is_right(silences: Silences, name: str, tmp_path: Path) -> None:
    end = silences.end(VERBS[name], Kind("healthy", (), "@healthy"))
    assert end.result is not None
    assert end.result.status == VERBS[name].healthy_status, end
    assert not end.has_started
