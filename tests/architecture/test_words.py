"""Guards the English of messages, comments and documents: a few phrases that came back most often, with what to write.

This is not a style checker. A phrase is listed because readers stumbled over it many times; CONTRIBUTING has the rule.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .paths import ROOT, nodes_of

# What → why, and what to write.
WORST = {
    r"\b(?:leav(?:e|es|ing)|tak(?:e|es|en|ing)|took|left)\b(?: [^\s.;:]+){0,4} away\b": "write omit, remove or unset",
    r"\bleav(?:e|es|ing) (?:it |them |that |those )?out\b": "write omit, or exclude for a node",
    r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b|such\b|other\b)": "write is not a",
    r"\bmend(?:s|ed|ing)?\b": "write fix, correct or repair",
    r"\b(?:of|by) ours\b": "write of Muster: a reader does not know who we are",
    r"(?<![\"'=] )\b(?:is|are|be) said\b": "name who reports it: a warning, Muster, Slurm",
    r"\banew\b": "write again",
    r"\bnobody (?:knows|says|reads|looks|listens|asked|typed)\b": "name the subject: is not known, no program reads",
}
_ANY = re.compile("|".join(WORST))
PATHS = ("src", "docs", "scripts", "README.md", "ARCHITECTURE.md")
# Ten sentences as they were.
EXAMPLES = ("docs/contributing/words.md",)


def texts() -> Iterator[tuple[str, int, str]]:
    """Yield (file, line number, line) of the files that people read and that hold one of the phrases."""
    listed = subprocess.run(["git", "ls-files", "--", *PATHS], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if name in EXAMPLES or Path(name).suffix not in {".py", ".sh", ".md", ".toml", ""}:
            continue
        text = (ROOT / name).read_text(errors="replace")
        if _ANY.search(text.lower()):
            yield from ((name, number, line) for number, line in enumerate(text.splitlines(), 1))


def phrases_in(line: str) -> Iterator[str]:
    """Yield each of the worst phrases in a line of small letters, with what to write."""
    for pattern, advice in WORST.items():
        if match := re.search(pattern, line):
            yield f"{match[0].strip()!r}: {advice}"


def test_the_worst_phrases_do_not_come_back() -> None:
    stumbling = [f"{name}:{number}: {phrase}" for name, number, line in texts() for phrase in phrases_in(line.lower())]
    assert not stumbling, "\n".join(stumbling)


@pytest.mark.parametrize(
    "sentence",
    [
        "take NCCL_IB_HCA away: NCCL takes the nearest card",
        "leave --master-addr away, or name a host",
        "leave it out: every rank finds out which one it is",
        "0 is no time between two ranks",
        "mend the file or its permissions",
        "a bug of ours",
        "what cannot be staged is said",
        "a cluster that was made anew",
        "with --distribution=arbitrary nobody knows the host of rank 0",
    ],
)
def test_each_phrase_is_found(sentence: str) -> None:
    assert list(phrases_in(sentence.lower()))


@pytest.mark.parametrize(
    "sentence",
    ["there is no Python in venv", "it is no longer there", "omit it, or name a host", "a recommended value"],
)
def test_plain_sentences_are_left_alone(sentence: str) -> None:
    assert not list(phrases_in(sentence.lower()))


# Locals that do not say what they hold. A small share may stay: where the same line names the thing.
VAGUE = frozenset(
    """
    each found told said seen asked kept wanted given known shown typed made done what why where how own one
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
MOST_VAGUE = 0.04


def vague_locals(source: str) -> Iterator[tuple[str, str]]:
    """Yield each function with those of its locals that do not say what they hold."""
    for function in nodes_of(source):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            bound = {
                node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            yield function.name, " ".join(sorted(bound & VAGUE))


def test_locals_say_what_they_hold() -> None:
    rows = [(path, *row) for path in (ROOT / "src/muster").rglob("*.py") for row in vague_locals(path.read_text())]
    vague = [f"{path.relative_to(ROOT)}: {function}: {names}" for path, function, names in rows if names]
    assert len(vague) <= MOST_VAGUE * len(rows), "\n".join(vague)
