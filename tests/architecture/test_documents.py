"""Guards that what README, CONTRIBUTING and docs tell people to type exists: verbs, options, targets, files."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from muster.cli.verbs import VERBS

from .paths import ROOT

MUSTER = Path(sys.executable).with_name("muster")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# An output option's own text begins where the user's command does.
COMMAND_BEGINS = re.compile(r"^(--|.*\.py|python.*|[A-Z]+…?|\S*…|bash|hostname|nvidia-smi|\./.*)$")


def code_in(text: str) -> Iterator[str]:
    """Every line of code: fenced, indented, and `inline`; a line that ends in a backslash goes on."""
    fenced = re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    (.+)$", rest, flags=re.MULTILINE)
    for block in [*fenced, *indented]:
        yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"`([^`\n]+)`", rest)


def commands_in(text: str, program: str) -> list[list[str]]:
    """What follows `program` wherever a line of code begins with it, without the comment at its end."""
    found = []
    for code in code_in(text):
        words = re.sub(r"\s+#.*$", "", code).strip().removeprefix("$ ").split()
        if words[:1] == [program]:
            found.append(words[1:])
    return found


def all_commands(program: str) -> list[tuple[str, list[str]]]:
    return [(file.name, words) for file in DOCUMENTS for words in commands_in(file.read_text(), program)]


@cache
def help_of(*verb: str) -> str:
    done = subprocess.run([MUSTER, *verb, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def options_before_command(words: list[str]) -> Iterator[str]:
    for word in words:
        if COMMAND_BEGINS.match(word):
            return
        if re.match(r"^--?[a-zA-Z]", word):
            yield word.partition("=")[0]


@pytest.mark.parametrize(
    ("file", "words"), all_commands("muster"), ids=lambda value: shlex.join(value) if isinstance(value, list) else value
)
def test_a_muster_command_in_the_documents_exists(file: str, words: list[str]) -> None:
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is None or verb == "VERB":
        assert set(words) <= {"--help", "--version", "-h", "VERB"}
        return
    assert verb in {each.name for each in VERBS}, f"{file}: muster {shlex.join(words)}"
    below = words[words.index(verb) + 1 :]
    page = help_of(verb)
    if below and re.fullmatch(r"[a-z-]+", below[0]) and f" {below[0]}" in page and verb in {"lab", "build"}:
        page += help_of(verb, below[0])
    unknown = [option for option in options_before_command(below) if not re.search(rf"{option}\b", page)]
    assert unknown == [], f"{file}: muster {shlex.join(words)}"


@pytest.mark.parametrize(
    ("file", "words"), all_commands("make"), ids=lambda value: shlex.join(value) if isinstance(value, list) else value
)
def test_a_make_target_in_the_documents_exists(file: str, words: list[str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {word for word in words if "=" not in word} <= targets, file


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_that_a_document_links_to_exists(file: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text())
    assert [link for link in links if not (file.parent / link).exists()] == []
