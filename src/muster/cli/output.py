"""How the verbs print: the answer on stdout, words and progress on stderr, colour only where it is wanted."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from muster.older import zip_equal

# A longer one, which is hardly a word, may be broken rather than turn a whole table into blocks.
_LONGEST_WORD = 20
_WIDEST_PLAIN = 60


# Colours and moves of the cursor, as progress bars draw them; the rest (titles, the clipboard, questions to the
# terminal) is for nobody whose job wrote it.
_DRAWS = r"\x1b\[[0-9;:?]*[A-HJKSTfhlmsu]"
_NOT_SHOWN = rf"({_DRAWS})|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]"


def harmless(text: str) -> str:
    """Return a text as a terminal may have it: what would command the terminal is written out, \\x1b for ESC."""
    if text.isprintable():
        return text
    return re.sub(_NOT_SHOWN, lambda match: match[1] or f"\\x{ord(match[0]):02x}", text)


def leave(status: int) -> NoReturn:
    """Write the answer out and leave at once: an interpreter's own end costs a launch 3 ms."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, keys in the order they were given; in ASCII where stdout takes no more."""
    import json

    in_ascii = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(value, indent=2, ensure_ascii=in_ascii)
    print(text if not _holds_surrogate(text) else json.dumps(value, indent=2))


def _holds_surrogate(text: str) -> bool:
    """Return whether the text holds bytes of a file's name that are not text, which no encoding takes."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, file: Any = None) -> None:
    """Print a table on stdout (or `file`).

    Drawn on a terminal, row by row on a narrow one, plain and aligned elsewhere.
    """
    stream = sys.stdout if file is None else file
    if not stream.isatty():
        _print_plain(columns, rows, stream)
        return
    shown_rows = [[harmless(str(cell)) for cell in row] for row in rows]
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, no_color=bool(os.environ.get("NO_COLOR")) or None)
    console.width = console.width or 80  # COLUMNS=0 says nothing
    widths = _widths(columns, shown_rows, console.width - 2 * len(columns) + 2)
    if widths is None:
        print("\n".join(_one_by_one(columns, shown_rows, console.width)), file=stream)
        return
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column, width in zip_equal(columns, widths):
        table.add_column(column, overflow="fold", width=width)
    for row in shown_rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[object]], room: int) -> list[int] | None:
    """Return the width of each column, the widest folded until all have room; None where words would be broken."""
    texts = [[column, *(str(row[index]) for row in rows)] for index, column in enumerate(columns)]
    least_widths = [
        min(_LONGEST_WORD, max((len(word) for text in column for word in text.split()), default=0)) for column in texts
    ]
    widths = [max(map(len, column)) for column in texts]
    if sum(least_widths) > room:
        return None
    while sum(widths) > room:
        widest = max(
            (index for index in range(len(widths)) if widths[index] > least_widths[index]), key=widths.__getitem__
        )
        widths[widest] -= 1
    return widths


def _one_by_one(columns: Sequence[str], rows: Sequence[Sequence[object]], screen: int) -> Iterator[str]:
    """Yield each row as a block: its first cell and its marks, then a line for each other."""
    width = max(map(len, columns))
    for row in rows:
        first, *rest = ((column, str(cell)) for column, cell in zip_equal(columns, row))
        yield " ".join([first[1], *(cell for column, cell in rest if cell and not column)])
        for column, cell in rest:
            if cell and column:
                yield from hanging(f"  {column.ljust(width)}  ", cell, screen)


def hanging(head: str, text: str, width: int) -> list[str]:
    """Return a text behind its head, folded below its own beginning; below the head where there is too little room."""
    from textwrap import wrap

    if len(head) + len(text) <= width:
        return [f"{head}{text}".rstrip()]
    indent = len(head) if width - len(head) >= _LONGEST_WORD else 4
    if indent == len(head):
        return wrap(text, width, initial_indent=head, subsequent_indent=" " * indent) or [head.rstrip()]
    return [head.rstrip(), *wrap(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent)]


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[object]], stream: Any) -> None:
    cells = [[str(cell) for cell in row] for row in [columns, *rows]]
    # One long cell stands out of its own row, and does not push those of all others apart.
    widths = [
        max((len(row[index]) for row in cells if len(row[index]) <= _WIDEST_PLAIN), default=0)
        for index in range(len(columns))
    ]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip_equal(row, widths)).rstrip(), file=stream)


def say(message: str, *, quiet: bool = False) -> None:
    """Print one line of news on stderr."""
    if not quiet:
        print(at_words(f"muster: {message}", sys.stderr), file=sys.stderr, flush=True)


def at_words(text: str, stream: Any) -> str:
    """Return a text whose long lines a terminal breaks between words; the text as it is where the stream is none.

    Blanks fill each row up to its end, so a command that is copied from the screen is still one line.
    """
    if not stream.isatty():
        return text
    from muster.cli.help_page import screen_width

    width, text = screen_width(stream.fileno()), harmless(text)
    return "\n".join(line if len(line) <= width else _filled(line, width) for line in text.split("\n"))


def _filled(line: str, width: int) -> str:
    """Return one long line with blanks where a word would reach over the end of a row."""
    text = line.lstrip(" ")
    indent = min(len(line) - len(text), width // 2)
    filled, column = " " * indent, indent
    for blanks, word in re.findall(r"( *)([^ ]+)", text):
        if column + len(blanks) + len(word) <= width or len(word) >= width - indent:
            filled += blanks + word
            column = (column + len(blanks) + len(word) - 1) % width + 1
        else:
            start = indent or int(column == width)  # a blank stands between two words also where a row is full
            filled += " " * (width - column + start) + word
            column = start + len(word)
    return filled
