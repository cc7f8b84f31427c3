"""The table of a sweep in the script: which row a task of the array has. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from muster.facts import SweepTable
from muster.model.plan import Pack, Plan
from muster.model.words import COLUMN_PREFIX, Fragment, Word, fold, line, named
from muster.rank import contract


def choose_row(plan: Plan) -> Iterator[str]:
    """Yield the line of the job that takes the row of its task."""
    if plan.sweep is not None:
        count = len(plan.sweep.rows)
        stop = line(("muster_stop", "the job is not a task of the array", f"queue it with --array=1-{count}"))
        yield f'row "${{SLURM_ARRAY_TASK_ID:-}}" || {stop}'


def pack_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of a job that starts several rows on its node, and ends when all of them have ended."""
    if plan.pack is not None and plan.sweep is not None:
        sizes = {"at_once": plan.pack.rows, "rows": len(plan.sweep.rows), "ranks": plan.pack.shape.ntasks}
        yield fold(("muster_run_rows", *(named(name, size) for name, size in sizes.items())))
        yield "muster_finish"


def row_job(lines: Iterable[str]) -> Iterator[str]:
    """Yield the function that runs one row, with its own environment and its own step."""
    yield ""
    yield "# One row: the rows of a node run it beside each other."
    yield "row_job() {"
    yield '    row "$1"'
    yield from (f"    {text}" for text in lines)
    yield "}"


def port_range_of_row(plan: Plan, pack: Pack) -> dict[str, Word]:
    """Return the ports of a row: those of its neighbours are other ones."""
    meeting = plan.rendezvous
    count = (meeting.port_high - meeting.port_low + 1) // pack.rows
    low = Fragment(f"$(({meeting.port_low} + muster_slot * {count}))")
    return {contract.PORT_LOW: low, contract.PORT_COUNT: str(count)}


def row_lines(plan: Plan, shown_rows: int | None) -> Iterator[str]:
    """Yield the function that holds the table, a line for each row; a value may hold a line break."""
    if plan.sweep is None:
        return
    shown = plan.sweep.rows[:shown_rows]
    yield ""
    place = "task N of the array has row N" if plan.pack is None else "row_job N runs row N"
    yield f"# The rows of {_plain(plan.sweep.path)}: {place}."
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
