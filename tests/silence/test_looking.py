"""No verb that looks at jobs takes silence for an answer: every kind of silence, under every verb that asks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import muster_check.stacks.ask
import muster_check.verbs.top

from .cluster import Silences, Verb, case_of
from .kinds import KINDS, Kind

# Of job 7, which squeue knows: accounting is not asked, so its silence does no harm.
VERBS = {
    "jobs": Verb(("jobs",), needs=("squeue",)),
    "jobs --json": Verb(("jobs", "--json"), needs=("squeue",)),
    "status": Verb(("status", "7"), needs=("squeue",)),
    "status --json": Verb(("status", "--json", "7"), needs=("squeue",)),
    "why": Verb(("why", "7"), needs=("squeue",), names=("srun",)),
    "logs": Verb(("logs", "7"), needs=("squeue",), healthy_status=2),
    "stacks": Verb(("stacks", "7"), needs=("squeue", "srun"), healthy_status=3),
    "top": Verb(("top", "7"), needs=("squeue", "srun"), healthy_status=3),
    "report": Verb(("report", "7"), needs=("squeue",)),
    "cancel": Verb(("cancel", "7"), needs=("squeue", "scancel")),
    "clean": Verb(("clean", "--yes"), needs=("squeue",)),
    "nodes": Verb(("nodes",), needs=("scontrol",)),
}

# What may be said of a job where squeue does not answer: accounting has it as over.
_BY_ACCOUNTING = "COMPLETED|is over already|has ended|not known where|A report on job 7"
_NAMES = "squeue|scancel|srun|scontrol|sacct|controller|Slurm|munge|node"
# Where scancel ends with 0, it has told the controller: it prints nothing then.
_SAYS_YES = {name for name in (kind.name for kind in KINDS) if name.endswith("status 0") and "an error" not in name}


@pytest.fixture(scope="module")
def silences(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Silences]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(muster_check.stacks.ask, "_PATIENCE_S", 1)
        patch.setattr(muster_check.verbs.top, "_PATIENCE_S", 1)
        yield Silences(tmp_path_factory.mktemp("silence"), patch)


def wrong(silences: Silences, name: str, kind: Kind) -> list[str]:
    """Return what a verb made of a kind that is no answer."""
    verb = VERBS[name]
    if kind.is_answer:
        return silences.judge(verb, kind)
    end = silences.end(verb, kind)
    if end.result is None:
        return ["it does not end"]
    status, text = end.result.status, end.result.stdout + end.result.stderr
    complaints = ["a bug"] if "Traceback (most recent" in text or "a bug in Muster" in text else []
    asked = {line.partition(" ")[0] for line in end.asked}
    spoiled = (set(kind.programs) - ({"scancel"} if kind.name in _SAYS_YES else set())) & set(verb.needs)
    if "which jobs wait or run: what one of them may need stays" in text or kind.name.startswith("ping:"):
        return complaints
    can_note = bool(kind.answer) and kind.mode & 0o100 and kind.first_line == "#!/bin/sh"
    if not spoiled or (can_note and not spoiled & asked):
        return complaints
    if "squeue" in spoiled and re.search("you have no jobs|nothing is left|does not know it any more|is RUNNING", text):
        complaints.append("silence was taken for an answer")
    if "scancel" in spoiled and "squeue" not in spoiled and "is cancelled\n" in text:
        complaints.append("a lost answer was taken for a yes")
    is_accounted = "7" in verb.words and "squeue" in spoiled and re.search(_BY_ACCOUNTING, text)
    if status == 0 and not is_accounted:
        complaints.append("status 0")
    if status not in {0, 2, 3} or (status and "hint: " not in end.result.stderr):
        complaints.append(f"status {status}, or no hint")
    if status and not is_accounted and not re.search(_NAMES, end.result.stderr):
        complaints.append("nobody is named")
    return complaints


@pytest.mark.parametrize("name", VERBS)
def test_a_healthy_cluster_is_right(silences: Silences, name: str) -> None:
    end = silences.end(VERBS[name], Kind("healthy", (), "@healthy"))
    assert end.result is not None
    assert end.result.status == VERBS[name].healthy_status, end


# Verbs that ask as another one does meet each sixth kind in `make test`, and the rest in `make test-long`.
_IN_FULL = ("jobs", "cancel")


def _cases() -> Iterator[Any]:
    for place, (name, verb) in enumerate(VERBS.items()):
        kinds = [kind for kind in KINDS if set(kind.programs) & set(verb.needs)]
        for number, kind in enumerate(kinds):
            yield case_of(name, kind, is_in_test=name in _IN_FULL or number % 6 == place % 6, full=_IN_FULL, half=1)


@pytest.mark.parametrize(("name", "kind"), list(_cases()))
def test_no_kind_of_silence_is_an_answer(silences: Silences, name: str, kind: Kind) -> None:
    assert not wrong(silences, name, kind)
