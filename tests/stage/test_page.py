"""The page about the inside of staging names every word of the protocols, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHELL = ROOT / "src" / "muster" / "render" / "shell" / "stage"
PAGE = (ROOT / "docs" / "explanation" / "staging.md").read_text()
NODE = (SHELL / "stage_node.sh").read_text()


def words_of_table(head: str) -> set[str]:
    """The first words of the first column of the table under this head."""
    rows = PAGE.split(f"| {head} |")[1].split("\n\n")[0].splitlines()[2:]
    return {word.split()[0] for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_the_page_names_every_order() -> None:
    sent = set(re.findall(r"printf '(muster_\w+)\\[tn]", (SHELL / "stage.sh").read_text()))
    assert words_of_table("order") == sent
    assert sent <= set(re.findall(r"^(muster_\w+)\(\)", NODE, flags=re.MULTILINE))


def test_the_page_names_every_answer() -> None:
    told = re.findall(r'muster_tell \S+ "?([a-z-]+)', NODE) + re.findall(r"muster_(?:trouble|made)=([a-z-]+)", NODE)
    assert words_of_table("answer") == set(told)


def test_the_page_names_the_fields_of_latest() -> None:
    fields = re.findall(r"^\| (\w+) \|", PAGE.split("| field |")[1].split("\n\n")[0], flags=re.MULTILINE)
    read = re.search(r"read -r (.*?) 2>/dev/null <\"\$muster_packed/latest\"", (SHELL / "stage.sh").read_text())
    assert read is not None
    assert fields == read[1].replace("when", "time").split()
