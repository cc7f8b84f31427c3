"""Versions that people read: one number everywhere, and a changelog that says what it means for them."""

from __future__ import annotations

import re

from muster import __version__
from muster.older import tomllib

from .test_one_file import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
SECTIONS = re.findall(r"^## (.*)$", TEXT, flags=re.MULTILINE)


def number(text: str) -> tuple[int, ...]:
    """Return a version as numbers that can be compared."""
    return tuple(map(int, text.split(".")))


def test_the_version_is_three_numbers_and_stands_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/muster/__init__.py"


def test_the_changelog_goes_from_what_is_next_to_the_first_version() -> None:
    assert SECTIONS[0] == "Unreleased"
    released = [re.fullmatch(r"(\d+\.\d+\.\d+) — \d{4}-\d{2}-\d{2}", section) for section in SECTIONS[1:]]
    assert None not in released
    numbers = [number(match[1]) for match in released if match]
    assert numbers == sorted(numbers, reverse=True)
    assert all(each <= number(__version__) for each in numbers)


def test_each_version_says_first_what_changes_for_its_reader() -> None:
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        assert section.partition("\n")[2].lstrip().startswith("### What changes for you"), section[:40]
