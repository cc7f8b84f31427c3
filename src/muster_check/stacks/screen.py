"""The screen of muster top, as something that rich draws: the job, its ranks by host, the line below. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text

from muster.cli.job_words import plain
from muster_check.stacks.condition import standing
from muster_check.stacks.fold import UNKNOWN_LINE, collective_of, user_frame
from muster_check.stacks.move import Doing, Movement

_STYLES = {
    Doing.MOVES: "green",
    Doing.COMPILES: "magenta",
    Doing.READS: "cyan",
    Doing.SPINS: "red",
    Doing.CALLS: "green",
    Doing.WAITS: "yellow",
    Doing.RESTS: "red",
}
# A cell of the grid: the rank's number and a letter.
_LETTERS = {
    Doing.MOVES: "r",
    Doing.COMPILES: "c",
    Doing.READS: "i",
    Doing.SPINS: "L",
    Doing.CALLS: "r",
    Doing.WAITS: "w",
    Doing.RESTS: "S",
}
_LEGEND = "r runs  i reads or writes  c compiles  w waits in a collective  L one line  S stands"
_NARROW = 60


class Screen(NamedTuple):
    """All that is shown."""

    title: str
    ranks: Sequence[Movement]
    size: int
    chosen: str
    """The label of a rank."""

    sentence: str
    last_line: str
    page: Sequence[str] = ()
    """Shown in the place of the ranks: the stack or the log of one."""

    takes_keys: bool = True
    """Whether somebody can press one: the screen stands on a terminal."""


def draw_screen(screen: Screen, width: int, height: int) -> Lines:
    """Return the screen."""
    title = Text(plain(screen.title), style="bold reverse", overflow="ellipsis", no_wrap=True)
    keys = "q quit  ↑↓ rank  s stack  l log" if not screen.page else "q quit  ↑↓ rank  any other key: back"
    foot = [
        *_wrapped(screen.sentence, width),
        _one(screen.last_line, ""),
        *([_one(keys, "dim")] * screen.takes_keys),
    ]
    room = max(height - len(foot) - 2, 1)
    if screen.page:
        return Lines(title, *(_one(line, "") for line in screen.page[:room]), *foot)
    body = _list(screen, width, room) if len(screen.ranks) <= room - 1 else _grid(screen, width, room)
    return Lines(title, body, *foot)


def _wrapped(text: str, width: int) -> list[Text]:
    """Return the sentence in three lines at most: on a narrow screen its end matters too."""
    lines = textwrap.wrap(plain(text), width) or [""]
    return [_one(line, "bold") for line in [*lines[:2], " ".join(lines[2:])] if line]


def _one(text: str, style: str) -> Text:
    return Text(plain(text), style=style, overflow="ellipsis", no_wrap=True)


def state_words(movement: Movement) -> str:
    """Return what a rank does, in a few words."""
    if movement.doing is Doing.WAITS:
        return f"waits in {collective_of(movement.stack)}"
    return standing(movement.stack).value if movement.doing is Doing.RESTS else movement.doing.value


def _place(movement: Movement) -> str:
    frame = user_frame(movement.stack)
    if frame is not None:
        return f"{frame.name}:{frame.line} {frame.function}"
    return "not known" if movement.stack.unseen else movement.stack.trouble or ""


def _details(movement: Movement) -> str:
    """Return the line about the rank that was chosen."""
    stack = movement.stack
    place = f"{UNKNOWN_LINE} ({stack.unseen})" if stack.unseen else _place(movement)
    return f"rank {stack.label} on {stack.host}: {state_words(movement)}, {place}"


def _list(screen: Screen, width: int, room: int) -> Table:
    """Draw few ranks, each in a line."""
    del room
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    columns = ["rank", "host", "state", "CPU", "memory", "line"]
    if width < _NARROW:
        columns = ["rank", "host", "state", "CPU"]
    elif any(each.stack.signs.gpu_use is not None for each in screen.ranks):
        columns.insert(5, "GPU")
    if any(each.stack.role for each in screen.ranks):
        columns.insert(0, "role")
    for name in columns:
        right = name in {"rank", "CPU", "memory", "GPU"}
        share = 1 if name == columns[-1] else None  # the last column has the room that the others leave
        table.add_column(name, justify="right" if right else "left", no_wrap=True, overflow="ellipsis", ratio=share)
    for movement in screen.ranks:
        stack = movement.stack
        gpu = " +GPU" if stack.signs.has_gpu and stack.signs.gpu_use is None else ""
        cells = {
            "role": stack.role,
            "rank": str(stack.rank),
            "host": plain(stack.host),
            "state": state_words(movement),
            "CPU": f"{movement.cpu:.0%}",
            "memory": f"{stack.signs.memory_mib:,} MiB{gpu}",
            "GPU": "" if stack.signs.gpu_use is None else f"{stack.signs.gpu_use}% {stack.signs.gpu_mib:,} MiB",
            "line": plain(_place(movement)),
        }
        style = _STYLES[movement.doing] + (" reverse" if stack.label == screen.chosen else "")
        table.add_row(*(cells[name] for name in columns), style=style)
    return table


def _grid(screen: Screen, width: int, room: int) -> Lines:
    """Draw many ranks: a line for each host, of each role, and a cell for each rank."""
    hosts: dict[str, list[Movement]] = {}
    for movement in screen.ranks:
        hosts.setdefault(f"{movement.stack.role} {movement.stack.host}".lstrip(), []).append(movement)
    name = max(map(len, hosts), default=0)
    digits = len(str(max(screen.size - 1, 0)))
    a_line = max((width - name - 7) // (digits + 2), 1)
    lines: list[Text] = []
    for host, ranks in hosts.items():
        cpu = f"{sum(each.cpu for each in ranks) / len(ranks):4.0%} "
        for begin in range(0, len(ranks), a_line):
            line = Text((f"{plain(host):<{name}} {cpu}" if not begin else " " * (name + 6)), no_wrap=True)
            for movement in ranks[begin : begin + a_line]:
                style = _STYLES[movement.doing] + (" reverse" if movement.stack.label == screen.chosen else "")
                line.append(f"{movement.stack.rank:>{digits}}{_LETTERS[movement.doing]}", style=style)
                line.append(" ")
            lines.append(line)
    hidden_count = len(lines) - (room - 3)
    shown_lines = (
        lines
        if hidden_count <= 0
        else [*lines[: room - 3], Text(f"… {hidden_count} more lines: a higher terminal shows them")]
    )
    chosen_rank = next((each for each in screen.ranks if each.stack.label == screen.chosen), None)
    details = "" if chosen_rank is None else _details(chosen_rank)
    return Lines(*shown_lines, _one(_LEGEND, "dim"), _one(details, ""))
