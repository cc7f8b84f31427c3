"""Which row of its sweep a task has: read from its own folder in the run directory."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from muster.act.record import Run, written_object


def row_of_task(run: Run, task: str) -> dict[str, str] | None:
    """Return the values of a task's row by their columns; None: the job has no table, or one task is not meant."""
    if not (task.isascii() and task.isdigit()):
        return None
    row = written_object(run.directory / f"task-{task}" / "row.json")
    return {str(name): str(value) for name, value in row.items()} or None


def row_in_words(row: Mapping[str, str]) -> str:
    """Return a row on one line: lr=0.1 seed=1."""
    text = " ".join(f"{name}={shlex.quote(value)}" for name, value in row.items())
    return "".join(letter if letter.isprintable() else " " for letter in text)
