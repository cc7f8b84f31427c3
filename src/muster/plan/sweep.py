"""A sweep: one task of an array for each row of a table, whose values stand in the words of the command. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from muster.errors import RequestError, UnknownName
from muster.facts import SweepTable
from muster.job.request import Request
from muster.model.plan import Directive, Note, Pack, Plan, Reason, Variable
from muster.model.words import PLACEHOLDERS, Template, Word

# {lr}; not ${lr}, which is the shell's or Hydra's.
_GAP = r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}"


def table_of(request: Request, table: SweepTable | None, *, queued: bool) -> SweepTable | None:
    """Return the table that the job sweeps over; None: it is one run."""
    if table is None:
        for field in ("sweep_at_once", "sweep_per_node"):
            if getattr(request, field) is not None:
                origin = request.origin(field)
                raise RequestError(f"{origin}: it has no effect without a table", hint="--sweep FILE.csv")
        return None
    if not queued:
        one_run = shlex.join(Template(word, table.columns).filled(table.row(1)) for word in request.command)
        raise RequestError(
            f"{request.origin('sweep')}: the {_count(table)} become tasks of an array, which waits in the queue",
            hint=f"muster submit --sweep {request.sweep} …; its first row alone, now: muster run … -- {one_run}",
        )
    return table


def sweep_command(words: Sequence[str], request: Request, table: SweepTable) -> tuple[Word, ...]:
    """Return the command with a gap wherever the row of the task has its value."""
    names = [name for word in (*words, *request.env) for name in re.findall(_GAP, word) if name not in PLACEHOLDERS]
    unknown_name = next((name for name in names if name not in table.columns), None)
    if unknown_name is not None:
        raise UnknownName(f"column of {table.path}", unknown_name, table.columns)
    if not names:
        raise RequestError(
            f"no word of the command holds a column of {table.path}: all {_count(table)} would run the same command",
            hint=f"-- python train.py --{table.columns[0]} {{{table.columns[0]}}}; columns: {', '.join(table.columns)}",
        )
    return tuple(Template(word, table.columns) if re.search(_GAP, word) else word for word in words)


def sweep_variables(variables: Sequence[Variable], table: SweepTable) -> tuple[Variable, ...]:
    """Return the variables; a value with a gap is that of the row."""
    return tuple(_of_row(variable, table) for variable in variables)


def _of_row(variable: Variable, table: SweepTable) -> Variable:
    text = variable.value.text if isinstance(variable.value, Template) else variable.value
    is_open = isinstance(text, str) and any(name in table.columns for name in re.findall(_GAP, text))
    return replace(variable, value=Template(text, table.columns)) if is_open and isinstance(text, str) else variable


def array_directive(request: Request, table: SweepTable) -> Directive:
    """Return the flag by which Slurm starts a task for each row."""
    per_node = request.sweep_per_node
    at_once = request.sweep_at_once
    if per_node is None:
        limit = f"%{at_once}" if at_once else ""
        reason = Reason("a task for each row", request.origin("sweep"))
        return Directive("array", f"1-{len(table.rows)}{limit}", reason)
    if at_once is not None and at_once < per_node:
        raise RequestError(
            f"{request.origin('sweep_at_once')}: fewer than the {per_node} rows of one node",
            hint=f"--sweep-per-node {at_once}, or --sweep-at-once {per_node}",
        )
    limit = f"%{at_once // per_node}" if at_once else ""
    reason = Reason("a task for each node, with the number of its first row", request.origin("sweep_per_node"))
    return Directive("array", f"1-{len(table.rows)}:{per_node}{limit}", reason)


def sweep_notes(
    table: SweepTable,
    pack: Pack | None,
    command: Sequence[Word],
    variables: Sequence[Variable],
    directives: Sequence[Directive],
) -> Iterator[Note]:
    """Yield how many rows there are and how the first one runs, and the columns that change nothing."""
    first_command = shlex.join(_words_of_row(command, table, 1))
    yield Note(f"{table.path}: {_count(table)}, {_place_of_rows(table, pack)}; the first: {first_command}")
    values = (*command, *(variable.value for variable in variables))
    texts = [value.text for value in values if isinstance(value, Template)]
    for name in table.columns:
        if not any(f"{{{name}}}" in text for text in texts):
            yield Note(f"the column {name} of {table.path} is in no word of the command", warning=True)
    output = next((directive.value or "" for directive in directives if directive.name == "output"), "")
    if output and not re.search("%[0-9]*[aj]", output):
        yield Note(f"all tasks write the same file, {output}: put %a into its name", warning=True)


def _place_of_rows(table: SweepTable, pack: Pack | None) -> str:
    if pack is None:
        return "a task of the array for each"
    jobs = -(-len(table.rows) // pack.rows)
    return f"{pack.rows} at a time on one node: {jobs} job{'s' * (jobs != 1)}"


def command_of_row(plan: Plan, number: int) -> tuple[str, ...]:
    """Return the command of a row, as it will be; of a plan without a table, the command."""
    return tuple(map(str, plan.command)) if plan.sweep is None else _words_of_row(plan.command, plan.sweep, number)


def _words_of_row(words: Sequence[Word], table: SweepTable, number: int) -> tuple[str, ...]:
    values = table.row(number)
    return tuple(word.filled(values) if isinstance(word, Template) else str(word) for word in words)


def _count(table: SweepTable) -> str:
    return f"{len(table.rows)} row{'s' * (len(table.rows) != 1)}"
