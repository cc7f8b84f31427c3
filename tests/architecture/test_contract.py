"""Every name that Muster's programs tell each other stands on one page, rank/contract.py, and is used."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

from muster.rank import contract

from .paths import SOURCE

NAME = re.compile(r"\bMUSTER_[A-Z][A-Z0-9_]*")
NO_VARIABLES = {
    "MUSTER_TEXT": "ends a text in the script",
    "MUSTER_NAME": "any of them, in a comment",
    "MUSTER_NAMES": "any of them, in a comment",
}


@cache
def used() -> dict[str, set[str]]:
    """Return each name, and the files that it stands in."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sh")]):
        name = str(path.relative_to(SOURCE))
        if name != "muster/rank/contract.py":
            for variable in NAME.findall(path.read_text()):
                found[variable].add(name)
    return found


def page() -> dict[str, str]:
    """Return the constants of the page that are Muster's own names."""
    values = {name: value for name, value in vars(contract).items() if isinstance(value, str)}
    return {name: value for name, value in values.items() if value.startswith("MUSTER_")}


def test_every_name_of_the_shell_and_of_the_sources_stands_on_the_page() -> None:
    names = set(page().values())
    assert {name: files for name, files in used().items() if name not in names | NO_VARIABLES.keys()} == {}


def test_every_name_of_the_page_is_used() -> None:
    imported = {name for path in SOURCE.rglob("*.py") for name in re.findall(r"\bcontract\.(\w+)", path.read_text())}
    assert {value for name, value in page().items() if value not in used() and name not in imported} == set()


def test_no_name_stands_twice() -> None:
    assert len(set(page().values())) == len(page())
