"""Guards that no decision reads a text that is made for people: a value says what is decided by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from architecture.paths import SOURCE, nodes_of

SAID = frozenset({"message", "hint", "sentence", "remedy", "why", "ending", "cause", "evidence", "reason", "origin"})
"""Attributes, and variables, that hold a sentence of Muster's own."""

WHOSE_TEXT = frozenset({"note", "reason", "point", "finding", "verdict", "remark", "share", "offer"})
"""Variables whose `.text` is a sentence of Muster's own; other texts are words of scripts, logs and commands."""

READERS = frozenset(
    (
        *("startswith", "endswith", "partition", "rpartition", "split", "rsplit", "splitlines", "removeprefix"),
        *("removesuffix", "find", "rfind", "index", "rindex", "replace", "count", "isdigit"),
        *("search", "match", "fullmatch", "findall", "finditer", "sub"),
    )
)

ALLOWED = {
    # file: the expression, as ast.unparse writes it, and why nothing else is there to decide by
    "muster_bench/ranks/devices.py": {"str(error).partition('\\n')": "torch's words, of which the first line is shown"},
    "muster_check/stacks/why.py": {
        "reported.endswith(plain(verdict.sentence))": "the line that the job's watcher left is not said again",
    },
    "muster/follow/attempts.py": {
        "told_save.sentence not in end.sentence": "both are lines of the job's script: one is not said twice",
    },
    "muster_lint/port/header.py": {"error.message.partition(': ')": "the option's name is not said twice in one row"},
    "muster/rank/store.py": {
        "'EADDRINUSE' in str(error)": "torch's words: it has no value for it",
        "'Address already in use' in str(error)": "torch's words: it has no value for it",
    },
    "muster/probe/judge.py": {
        "sentence in error_text": "what a job wrote: its stderr is all that comes back of it",
    },
    "muster/sites/read.py": {
        "re.search('missing required field `(\\\\w+)`', sentence)": "msgspec's words: it has no value for the field",
    },
    "muster/sites/text.py": {
        "re.search('\\\\(at line (\\\\d+), column \\\\d+\\\\)', str(error))": "tomllib's words: no value says it",
        "re.sub('\\\\s*\\\\(at .*\\\\)$', '', str(error))": "tomllib's words, without the place",
    },
    "muster/slurm/reasons.py": {
        "re.sub('\\\\bID\\\\b', job, self.remedy)": "the id of the job is put in; nothing is decided"
    },
    "muster/slurm/submit.py": {"re.search(_OF_NODES, self.reason)": "Slurm's words"},
}
"""Every place that reads such a text, with its reason. A new one needs a value in the place of the text."""


def is_said(node: ast.expr) -> bool:
    """Return whether an expression is a sentence of Muster's own, by its name."""
    if isinstance(node, ast.Attribute):
        of_person = isinstance(node.value, ast.Name) and node.value.id in WHOSE_TEXT
        of_reason = isinstance(node.value, ast.Attribute) and node.value.attr in WHOSE_TEXT
        return node.attr in SAID or (node.attr == "text" and (of_person or of_reason))
    if isinstance(node, ast.Name):
        return node.id in {"sentence", "hint", "remedy"}
    if isinstance(node, ast.BoolOp):
        return any(map(is_said, node.values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in {"origin", "words"} and not isinstance(node.func.value, ast.Call)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        of_error = isinstance(node.args[0], ast.Name) and node.args[0].id in {"error", "failure", "refusal"}
        return (node.func.id == "str" and of_error) or (node.func.id == "plain" and is_said(node.args[0]))
    return False


def readers(source: str) -> Iterator[str]:
    """Yield each comparison and each search of a sentence."""
    for node in nodes_of(source):
        if isinstance(node, ast.Compare):
            texts = all(isinstance(each, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) for each in node.ops)
            if texts and any(map(is_said, (node.left, *node.comparators))):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
            arguments = [] if node.func.attr == "replace" else node.args
            if any(map(is_said, (node.func.value, *arguments))):
                yield ast.unparse(node)


@pytest.mark.parametrize(
    "room", sorted({"/".join(file.relative_to(SOURCE).parts[:2]) for file in SOURCE.rglob("*.py")})
)
def test_nothing_decides_by_a_sentence(room: str) -> None:
    files = [SOURCE / room] if room.endswith(".py") else sorted((SOURCE / room).rglob("*.py"))
    for file in files:
        name = file.relative_to(SOURCE).as_posix()
        found = set(readers(file.read_text(encoding="utf-8")))
        assert found == set(ALLOWED.get(name, ())), f"{name} reads a text that is made for people"


@pytest.mark.parametrize(
    "line",
    [
        "re.search(r'wants --(qos|mem)', error.message)",
        "condition.hint == OTHER_SIZE",
        "request.origin(field).startswith('-')",
        "failure.sentence == f'{failure.host} failed'",
        "reason.text in known",
        "prelude.reason.text.partition(': ')",
        "'busy' in str(error)",
        "_PATTERN.match(error.hint or '')",
        "any(line.endswith(sentence) for line in lines)",
    ],
)
def test_a_reader_of_a_sentence_is_found(line: str) -> None:
    assert list(readers(line))


@pytest.mark.parametrize(
    "line", ["word.text == '='", "refusal.rule == 'nodes-max'", "error.hint is None", "print(error.message)"]
)
def test_what_is_no_sentence_may_be_read(line: str) -> None:
    assert not list(readers(line))
