"""Guards that what README, CONTRIBUTING and docs tell people to type exists: verbs, options, targets, files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.cli.verbs import VERBS, command_of

from .paths import ROOT

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


def flags_of(words: list[str]) -> set[str]:
    """The options of the verb, or of the verb of a verb, that these words begin with."""
    command = command_of(next(each for each in VERBS if each.name == words[0]))
    for word in words[1:]:
        command = next((each for each in command.verbs if each.name.split()[-1] == word), command)
        if not command.verbs:
            break
    below = {flag for each in command.verbs for option in each.own.values() for flag in option.flags}
    own = {**command.launch_options, **command.own}.values()
    return below | {flag for option in own for flag in option.flags}


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
        assert set(words) <= {"--help", "all", "--version", "-h", "VERB"}
        return
    assert verb in {each.name for each in VERBS}, f"{file}: muster {shlex.join(words)}"
    below = words[words.index(verb) :]
    known = flags_of(below)
    given = options_before_command(below[1:])
    unknown = [flag for flag in given if flag not in known and not (flag[:2] in known and flag[1] != "-")]
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


def test_an_account_in_a_command_to_copy_is_one_that_the_site_takes() -> None:
    typed = re.compile(r"--site (\w+)(?: [^`\n]*?)? -A ([^\s`]+)")
    profiles = {file.stem: file for file in (ROOT / "src/muster/sites/data").glob("*.toml")}
    texts = [page.read_text(encoding="utf-8") for page in DOCUMENTS]
    commands = {found.groups() for text in texts for found in typed.finditer(text) if found[1] in profiles}

    assert len(commands) > 5
    for site, account in commands:
        profile = profiles[site].read_text(encoding="utf-8")
        pattern = re.search(r'^account_pattern = "(.*)"$', profile, re.MULTILINE)
        assert pattern is None or re.fullmatch(pattern[1], account), f"--site {site} -A {account}"
