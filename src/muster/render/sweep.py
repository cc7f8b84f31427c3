"""The table of a sweep in the script: which row a task of the array has. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from muster.facts import SweepTable
from muster.model.plan import Plan
from muster.model.words import COLUMN_PREFIX, line

__all__ = ["choose_row", "row_lines"]


def choose_row(plan: Plan) -> Iterator[str]:
    """Yield the line of the job that takes the row of its task."""
    if plan.sweep is not None:
        count = len(plan.sweep.rows)
        stop = line(("muster_stop", "the job is not a task of the array", f"queue it with --array=1-{count}"))
        yield f'row "${{SLURM_ARRAY_TASK_ID:-}}" || {stop}'


def row_lines(plan: Plan, shown_rows: int | None) -> Iterator[str]:
    """Yield the function that holds the table, a line for each row; a value may hold a line break."""
    if plan.sweep is None:
        return
    shown = plan.sweep.rows[:shown_rows]
    yield ""
    yield f"# The rows of {_plain(plan.sweep.path)}: task N of the array has row N."
    yield "row() {"
    yield "    case $1 in"
    yield from (f"        {number}) {_assignments(plan.sweep, number)} ;;" for number in range(1, len(shown) + 1))
    if len(shown) < len(plan.sweep.rows):
        yield f"        # … {len(plan.sweep.rows) - len(shown)} more rows"
    yield "        *) return 1 ;;"
    yield "    esac"
    yield "}"


def _assignments(table: SweepTable, number: int) -> str:
    return " ".join(f"{COLUMN_PREFIX}{name}={shlex.quote(value)}" for name, value in table.row(number).items())


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
