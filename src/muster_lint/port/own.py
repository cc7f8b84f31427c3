"""A script that Muster wrote → the request it was made of: the line in its head, and what was edited since. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from muster.errors import RequestError
from muster.job.option import convert
from muster.job.options import parse, read_words
from muster.job.request import options_of
from muster_lint.job import BatchScript, HeaderOption
from muster_lint.port.header import written
from muster_lint.port.values import Draft, Fate, PortRow, option_words

_FIRST = re.compile(r"^# Written by muster \S+ for the site '([^']+)'", re.MULTILINE)
_LINE = re.compile(r"^#   muster submit (.+)$", re.MULTILINE)


def is_own(text: str) -> bool:
    """Tell whether Muster wrote a script."""
    head = text[:4000]
    return _FIRST.search(head) is not None and _LINE.search(head) is not None


def site_of(text: str) -> str | None:
    """Return the site that Muster wrote a script for."""
    match = _FIRST.search(text[:4000])
    return match[1] if match else None


def read_own(job: BatchScript) -> Draft:
    """Return the request of a script that Muster wrote; what its header says otherwise was edited, and holds."""
    draft = Draft()
    line, typed_words = _typed(job.text)
    fields, _, command = parse(typed_words)
    draft.command = command
    for field, texts in _texts(typed_words).items():
        for text in texts:
            if text.endswith("=…") and field == "env":
                draft.ask(line, f"--env {text}", "Muster never writes a secret into a script: give it again")
            else:
                draft.keep(line, f"muster submit {' '.join(option_words(field, [text]))}", field, text)
    _take_launcher(job, draft)
    for directive in job.directives:
        _compare(directive, draft, fields)
    draft.rows.append(PortRow(line + 1, "job() { … }", Fate.KEPT, "", "Muster's own lines: the plan writes them again"))
    return draft


def _typed(text: str) -> tuple[int, list[str]]:
    """Return the line that was typed, in words, and where it stands."""
    match = _LINE.search(text)
    if match is None:
        raise RequestError("the line that was typed is not in the script", hint="give the script as Muster wrote it")
    continuation = re.match(r"(?:\n#     .*)*", text[match.end() :])
    rest = "".join(
        f" {comment.removeprefix('#     ')}" for comment in (continuation[0] if continuation else "").split("\n")[1:]
    )
    try:
        words = shlex.split(match[1] + rest)
    except ValueError as error:
        raise RequestError(f"the line that was typed cannot be read: {error}", hint="close its quotes") from None
    return text[: match.start()].count("\n") + 1, words


def _texts(typed_words: list[str]) -> dict[str, list[str]]:
    """Return what was typed by field, each value as it was written."""
    table = options_of()
    texts: dict[str, list[str]] = {}
    for name, piece in read_words(typed_words, table).pieces:
        if name is not None:
            flags = table[name].flags
            value = piece[1] if len(piece) > 1 else _within(piece[0], flags)
            texts.setdefault(name, []).append(value)
    return texts


def _within(word: str, flags: tuple[str, ...]) -> str:
    """Return the value of --flag=VALUE or -fVALUE; nothing for a switch."""
    if word.startswith("--"):
        return word.partition("=")[2]
    return word[2:].removeprefix("=") if word[:2] in flags else ""


def _take_launcher(job: BatchScript, draft: Draft) -> None:
    """Take the launcher, which may follow from a settings file that the line does not name."""
    match = re.search(r"^ *muster_expect LAUNCHER=(\S+)", job.text, re.MULTILINE)
    if match is None:
        return
    launcher = match[1]
    line = job.text[: match.start()].count("\n") + 1
    if draft.get("launcher") in {None, "auto"}:
        draft.values.pop("launcher", None)
        draft.keep(line, f"LAUNCHER={match[1]}", "launcher", launcher)
    else:
        draft.note(line, f"LAUNCHER={match[1]}", "", "the plan chooses it again")


def _compare(directive: HeaderOption, draft: Draft, typed_texts: Mapping[str, Any]) -> None:
    """Take a directive that differs from what was typed."""
    line, subject = directive.place.line, written(directive)
    field = next((name for name, option in options_of().items() if directive.name in option.long_names), None)
    if field is None or directive.value is None:
        draft.note(line, subject, "", "the plan writes it")
        return
    try:
        value = convert(options_of()[field], directive.value, subject)
    except RequestError:
        draft.note(line, subject, "", "the plan writes it")
        return
    edited = field in typed_texts and field in _EDITABLE and typed_texts[field] != value
    if edited or (field == "nodes" and field not in typed_texts and value != 1):
        draft.revise(field, Fate.DROPPED, None, f"line {line} says otherwise")
        draft.change(line, subject, field, directive.value, "edited after Muster wrote it")
    else:
        draft.note(line, subject, "", "the plan writes it", field)


_EDITABLE = frozenset(
    """
    nodes ntasks_per_node cpus_per_task gpus_per_node account partition qos constraint mem time nodelist exclude
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
