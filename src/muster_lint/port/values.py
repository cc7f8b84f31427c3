"""What a ported script is: the options of `muster submit`, and one row for each thing that stood in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

import msgspec

from muster.job.option import Option
from muster.job.request import options_of
from muster.older import StrEnum
from muster.plan.secret import is_secret


class Fate(StrEnum):
    """What became of a part of the script."""

    KEPT = "kept"
    CHANGED = "changed"
    DROPPED = "dropped"
    NOT_CARRIED = "not carried"
    ASKED = "asked"


class PortRow(msgspec.Struct, frozen=True):
    """One part of the script: where it stands, and what became of it."""

    line: int
    """0: it is of no line of the script, but the target wants it."""

    what: str
    verdict: Fate
    now: str
    why: str
    field: str = ""
    """The field of the request that it became."""

    end_line: int = 0


def is_open(row: PortRow) -> bool:
    """Tell whether a person has to read a row first: without an answer the job may be another one."""
    return row.verdict in {Fate.ASKED, Fate.NOT_CARRIED}


class Draft:
    """What is read so far: values by field of the request, and the rows."""

    def __init__(self, read_file: Callable[[str], str | None] = lambda _: None) -> None:
        self.read_file = read_file
        """Returns the text of a file that the script names; None: it is not here, or no text."""

        self.values: dict[str, list[str]] = {}
        self.rows: list[PortRow] = []
        self.command: tuple[str, ...] = ()
        self.world = 0
        """How many ranks the script starts; 0: that is not certain."""

        self.cpus: int | None = None
        """How many CPUs the script gives each task."""

        self.secrets: dict[str, str] = {}
        """Values that nobody else may read, by the variable that holds each: no row repeats one."""

    def get(self, field: str) -> str | None:
        """Return the value of a field as text; None where nobody gave one."""
        return self.values[field][-1] if self.values.get(field) else None

    def number(self, field: str) -> int | None:
        """Return the value of a field as a number."""
        text = self.get(field)
        return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None

    def keep(self, line: int, subject: str, field: str, value: str = "", reason: str = "") -> None:
        """Give a field its value, as the script says it; a field that repeats gets one more."""
        self._put(line, subject, Fate.KEPT, field, value, reason)

    def change(self, line: int, subject: str, field: str, value: str, reason: str) -> None:
        """Give a field another value than the script's, or the value in another form."""
        self._put(line, subject, Fate.CHANGED, field, value, reason)

    def drop(self, line: int, subject: str, reason: str, field: str = "") -> None:
        """Leave a part of the script out, for a reason."""
        self.rows.append(PortRow(line, subject, Fate.DROPPED, "", reason, field))

    def ask(self, line: int, subject: str, reason: str, now: str = "", *, field: str = "") -> None:
        """Leave the decision to the reader."""
        self.rows.append(PortRow(line, subject, Fate.ASKED, now, reason, field))

    def leave(self, line: int, subject: str, reason: str) -> None:
        """Say that the job will not do a part of the script, which may matter."""
        self.rows.append(PortRow(line, subject, Fate.NOT_CARRIED, "", reason))

    def variable(self, line: int, subject: str, name: str, value: str) -> None:
        """Give the ranks a variable; a secret by its name alone."""
        if holds_secret(name, value):
            self.secrets[name] = value
            self.pass_on(line, subject, name, "a secret, so its value is in no line and no script")
        else:
            self.keep(line, subject, "env", f"{name}={value}", "a variable of the ranks")

    def pass_on(self, line: int, subject: str, name: str, reason: str) -> None:
        """Give the ranks a variable of the shell in which the line is typed."""
        if name not in self.values.setdefault("env", []):
            self.values["env"].append(name)
        why = f"{reason}: export {name} where you type the line"
        self.rows.append(PortRow(line, subject, Fate.ASKED, f"--env {name}", why, "env"))

    def note(self, line: int, subject: str, now: str, reason: str, field: str = "") -> None:
        """Say that a part of the script stands in something else now."""
        self.rows.append(PortRow(line, subject, Fate.KEPT, now, reason, field))

    def revise(self, field: str, verdict: Fate, value: str | None, reason: str) -> None:
        """Give a field another value, or none, and say so in its rows; a field without a row gets one of no line."""
        if value is None:
            self.values.pop(field, None)
        else:
            self.values[field] = [value]
        now = "" if value is None else shlex.join(option_words(field, [value]))
        rows = [row for row in self.rows if row.field == field and row.verdict is not Fate.DROPPED]
        if not rows:
            self.rows.append(PortRow(0, f"(no {options_of()[field].flags[0]})", verdict, now, reason, field))
        for row in rows:
            self._revise(row, _without(verdict, value), now, reason, is_left=value is not None)

    def revise_one(self, field: str, old: str, verdict: Fate, value: str | None, reason: str) -> None:
        """Give one value of a field that repeats another value, or remove it."""
        values = self.values[field]
        place = values.index(old)
        values[place : place + 1] = [] if value is None else [value]
        old_words = shlex.join(option_words(field, [old]))
        now = "" if value is None else shlex.join(option_words(field, [value]))
        for row in [row for row in self.rows if row.now == old_words]:
            self._revise(row, _without(verdict, value), now, reason, is_left=value is not None)

    def _revise(self, row: PortRow, verdict: Fate, now: str, reason: str, *, is_left: bool) -> None:
        """Put another verdict in the place of a row's; what was asked about a value stays asked while it has one."""
        if row.verdict is Fate.ASKED and is_left:
            verdict, reason = Fate.ASKED, "; ".join(dict.fromkeys(filter(None, [row.why, reason])))
        self.replace(row, verdict, now, reason)

    def replace(self, row: PortRow, verdict: Fate, now: str, reason: str) -> None:
        """Put another verdict in the place of a row's."""
        self.rows[self.rows.index(row)] = msgspec.structs.replace(row, verdict=verdict, now=now, why=reason)

    def words(self) -> list[str]:
        """Return the options, in the order of the request's fields."""
        return [
            word for field in options_of() if field in self.values for word in option_words(field, self.values[field])
        ]

    def _put(self, line: int, subject: str, verdict: Fate, field: str, value: str, reason: str) -> None:
        option = options_of()[field]
        if option.repeated:
            self.values.setdefault(field, []).append(value)
        else:
            self.values[field] = [value]
        self.rows.append(PortRow(line, subject, verdict, shlex.join(option_words(field, [value])), reason, field))


def ask_all(draft: Draft, rows: Iterable[PortRow], why: str) -> None:
    """Ask about what these rows keep: in the script it does not always hold."""
    for row in rows:
        if row.verdict in {Fate.KEPT, Fate.CHANGED}:
            draft.replace(row, Fate.ASKED, row.now, "; ".join(filter(None, [row.why, why])))


def holds_secret(name: str, value: str) -> bool:
    """Tell whether a variable of a script holds what nobody else may read; a number or a switch is none."""
    is_plain = re.fullmatch(r"\d{0,6}|true|false|yes|no|on|off|none", value, re.IGNORECASE) is not None
    is_placeholder = value.lower() in name.lower()
    return not (is_plain or is_placeholder) and "$" not in value and "`" not in value and is_secret(name, value)


def _without(verdict: Fate, value: str | None) -> Fate:
    """Return the verdict of a value that nothing took the place of: dropped, unless it is asked."""
    return Fate.DROPPED if value is None and verdict is Fate.CHANGED else verdict


def option_words(field: str, values: Iterable[str]) -> list[str]:
    """Return a field's option as it is typed, once for each value."""
    option = options_of()[field]
    if option.is_switch:
        return [option.flags[0]]
    return [word for value in values for word in _written(option, value)]


def _written(option: Option, value: str) -> Sequence[str]:
    flag = option.flags[0]
    return [f"{flag}={value}"] if option.whole_flags or value.startswith("-") else [flag, value]


def line_of(words: Sequence[str], command: Sequence[str]) -> str:
    """Return the one line that does the same."""
    head = ["muster", "submit", *words]
    return f"{shlex.join(head)} -- {' '.join(_quoted(word) for word in command)}"


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else shlex.quote(word)
