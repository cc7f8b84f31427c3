"""How the verbs print: the answer on stdout, words and progress on stderr, colour only where it is wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One JSON document on stdout, keys in the order they were given."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, file: Any = None) -> None:
    """A table on stdout (or `file`): drawn on a terminal, plain and aligned elsewhere."""
    stream = sys.stdout if file is None else file
    if not stream.isatty():
        _print_plain(columns, rows, stream)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console(file=stream, no_color=bool(os.environ.get("NO_COLOR")) or None).print(table)


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[object]], stream: Any) -> None:
    cells = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=stream)


def say(message: str, *, quiet: bool = False) -> None:
    """One line of news on stderr."""
    if not quiet:
        print(f"muster: {message}", file=sys.stderr, flush=True)
