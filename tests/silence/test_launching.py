"""No verb that launches or plans takes silence for an answer: every kind of silence, under every verb that asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import PYTHON, Silences, Verb, case_of, kinds_for
from .kinds import KINDS, Kind

VERBS = {
    "run": Verb(("run", "-N", "1", "--", "COMMAND"), needs=("scontrol", "sbatch", "salloc"), runs_here=True),
    "run -p main": Verb(("run", "-N", "2", "-p", "main", "-t", "10", "--", "COMMAND"), needs=("scontrol",)),
    "submit": Verb(("submit", "-N", "1", "--", "COMMAND"), needs=("sbatch",)),
    "shell": Verb(("shell", "--", "COMMAND"), needs=("scontrol", "sbatch")),
    "check": Verb(("check", "-N", "1"), needs=("scontrol",), healthy_status=1, starts_others=True),
    "bench": Verb(("bench", "-N", "2"), needs=("scontrol", "sbatch", "salloc"), healthy_status=2, starts_others=True),
    "build --job": Verb(
        ("build", "venv", "x", "--job"), needs=("scontrol",), healthy_status=3, starts_others=True, statuses=(2,)
    ),
    "from Python": Verb((PYTHON, "submit", "COMMAND"), needs=("sbatch",)),
    "queues": Verb(("queues",), needs=("sinfo", "squeue")),
    "site probe": Verb(("site", "probe"), needs=("scontrol",), names=("srun", "sacctmgr")),
    "site probe --job": Verb(("site", "probe", "--job"), needs=("srun",)),
    "site check": Verb(("site", "check"), needs=("scontrol",), names=("srun", "sacctmgr")),
    "site report": Verb(("site", "report"), needs=("scontrol",), names=("srun", "sacctmgr")),
}
# These ask in the words of another verb of the table: each meets every sixth kind, and all in `make test-long`.
LIKE_OTHERS = {
    "run -p main": 0,
    "shell": 1,
    "check": 2,
    "bench": 3,
    "build --job": 4,
    "from Python": 5,
    "site probe": 3,
    "site probe --job": 4,
    "site check": 5,
    "site report": 0,
}


def _cases() -> Iterator[object]:
    """Yield every verb with every kind; what another verb shows too is a sample, and the rest is long."""
    full = [name for name in VERBS if name not in LIKE_OTHERS]
    for name, verb in VERBS.items():
        shift = LIKE_OTHERS.get(name)
        for number, kind in enumerate(kinds_for(verb)):
            yield case_of(name, kind, is_in_test=shift is None or number % 6 == shift, full=full, half=0)


@pytest.fixture(scope="module")
def silences(tmp_path_factory: pytest.TempPathFactory) -> Silences:
    return Silences(tmp_path_factory.mktemp("silence"), pytest.MonkeyPatch())


@pytest.mark.parametrize(("name", "kind"), list(_cases()))
def test_silence_is_no_answer(silences: Silences, name: str, kind: Kind) -> None:
    verb = VERBS[name]
    complaints = silences.judge(verb, kind)
    assert not complaints, "\n".join(complaints)


def test_there_are_sixty_kinds() -> None:
    assert len({kind.name for kind in KINDS}) >= 60


@pytest.mark.parametrize("name", VERBS)
def test_a_healthy_cluster_is_right(silences: Silences, name: str, tmp_path: Path) -> None:
    end = silences.end(VERBS[name], Kind("healthy", (), "@healthy"))
    assert end.result is not None
    assert end.result.status == VERBS[name].healthy_status, end
    assert not end.has_started
