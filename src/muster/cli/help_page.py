"""The help of every verb, from its command line: at the terminal's width, what people need most first."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.cli.command_line import CommandLine
    from muster.job.option import Option

_WIDEST = 120
_NARROW = 60
_HEADS = 28


def print_page(command: CommandLine, *, with_all: bool = False) -> None:
    """Print the help of a verb."""
    print(help_page(command, width=screen_width(), with_all=with_all), end="")


def screen_width(descriptor: int = 1) -> int:
    """Return the columns of the screen: what COLUMNS says, else what the terminal says, else 80.

    shutil has the same answer, and opens 16 files more: its module loads three compressors.
    """
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(descriptor).columns or 80
    except OSError:
        return 80


def help_page(command: CommandLine, *, width: int = 80, with_all: bool = False) -> str:
    """Return the help of a verb: the options that people need most, or all of them."""
    width = max(20, min(width, _WIDEST))
    lines = [*_usage(command, width), "", *_wrapped(command.summary, width)]
    if command.examples:
        lines += ["", f"example{'s' * (len(command.examples) > 1)}:", *(f"  {example}" for example in command.examples)]
    if command.verbs:
        rows = [(verb.name.rpartition(" ")[2], verb.summary.partition("\n")[0]) for verb in command.verbs]
        lines += ["", "verbs:", *_rows(rows, width, _column_behind(name for name, _ in rows))]
        lines += ["", *textwrap.wrap(f"`muster {command.name} VERB --help` shows what a verb takes.", width)]
    else:
        lines += _options(command, width, with_all=with_all)
    if command.more:
        lines += ["", *_wrapped(command.more, width)]
    return "\n".join(lines) + "\n"


def in_two_columns(rows: Sequence[tuple[str, str]], width: int) -> str:
    """Return heads with a sentence behind each, or below it on a narrow terminal."""
    width = max(20, min(width, _WIDEST))
    return "\n".join(_rows(rows, width, _column_behind(head for head, _ in rows)))


def _usage(command: CommandLine, width: int) -> list[str]:
    words = "VERB [OPTION…]" if command.verbs else f"[OPTION…] {command.operands}".rstrip()
    return textwrap.wrap(f"usage: muster {command.name} {words}", width, subsequent_indent=" " * 7)


def _options(command: CommandLine, width: int, *, with_all: bool) -> Iterator[str]:
    launch = command.launch_options.values()
    if not launch or with_all:
        groups = options_by_title(command)
        column = _column([member for members in groups.values() for member in members])
        for title, members in groups.items():
            yield from ("", f"{title}:", *_of_options(members, width, column))
        return
    common_options = [
        own_option
        for own_option in (*launch, *command.own.values())
        if own_option.often or own_option.group == "output"
    ]
    yield from ("", "what most people need:", *_of_options(common_options, width, _column(common_options)))
    count = len(launch) + len(command.own)
    yield ""
    yield from textwrap.wrap(f"`muster {command.name} --help all` shows all {count} options.", width)


def options_by_title(command: CommandLine) -> dict[str, list[Option]]:
    """Return all options of a verb that are shown, by the titles that they stand under."""
    groups: dict[str, list[Option]] = {}
    for option in (*command.launch_options.values(), *command.own.values()):
        groups.setdefault(option.group if command.fields or option.has_group else "options", []).append(option)
    groups.pop("hidden", None)
    return groups


def default_of(option: Option) -> str:
    """Return the default of an option in brackets; nothing where there is none to tell."""
    is_told = isinstance(option.default, (str, int)) and not option.is_switch
    return f" (default: {option.default})" if is_told else ""


def _column(options: Iterable[Option]) -> int:
    """Return where the sentences of these options begin."""
    return _column_behind(option.head for option in options)


def _column_behind(heads: Iterable[str]) -> int:
    return min(_HEADS, max(map(len, heads), default=0)) + 4


def _of_options(options: Iterable[Option], width: int, column: int) -> Iterator[str]:
    return _rows([(option.head, _sentence(option)) for option in options if option.group != "hidden"], width, column)


def _sentence(option: Option) -> str:
    repeat_note = " (may be repeated)" if option.repeated else ""
    return f"{option.help}{default_of(option)}{repeat_note}"


def _rows(rows: Iterable[tuple[str, str]], width: int, column: int) -> Iterator[str]:
    """Yield two columns; on a narrow terminal, or behind a long head, the sentence stands below its head."""
    is_narrow = width < _NARROW
    indent = 6 if is_narrow else column
    for head, text in rows:
        lines = textwrap.wrap(text, width - indent, break_on_hyphens=False) or [""]
        if is_narrow or len(head) + 4 > indent:
            yield f"  {head}"
            yield from (f"{'':{indent}}{line}" for line in lines)
        else:
            yield f"  {head:<{indent - 2}}{lines[0]}"
            yield from (f"{'':{indent}}{line}" for line in lines[1:])


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Yield wrapped paragraphs; a line that begins with a blank is an example or a table, and keeps its shape."""
    for number, paragraph in enumerate(text.strip("\n").split("\n\n")):
        if number:
            yield ""
        flowing: list[str] = []
        for line in paragraph.splitlines():
            if line.startswith(" "):
                yield from textwrap.wrap(" ".join(flowing), width)
                flowing = []
                column = re.match(r" *\S.*?  +(?=\S)|\s+", line)
                blanks = " " * min(len(column[0]) if column else 0, width // 2)
                yield from textwrap.wrap(line, width, subsequent_indent=blanks)
            else:
                flowing.append(line)
        yield from textwrap.wrap(" ".join(flowing), width)
