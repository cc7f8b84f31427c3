"""The list of scripts drawn to judge lint and port: whole, and apart from those that the rules were written with."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

from muster.older import tomllib

_HERE = Path(__file__).parent


def _rows() -> list[dict[str, str]]:
    lines = [line for line in (_HERE / "drawn.tsv").read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t"))


def test_each_row_says_where_a_script_lies() -> None:
    rows = _rows()
    assert len(rows) >= 300
    for row in rows:
        assert all(row.values()), row
        assert re.fullmatch(r"[0-9a-f]{40}", row["commit"]), row
        assert re.fullmatch(r"[0-9a-f]{64}", row["sha256"]), row
        assert row["half"] in ("open", "closed"), row


def test_no_text_stands_twice_and_no_repository_more_than_twice() -> None:
    rows = _rows()
    assert len({row["sha256"] for row in rows}) == len(rows)
    assert max(Counter(row["repository"] for row in rows).values()) <= 2


def test_a_repository_lies_in_one_half() -> None:
    halves: dict[str, set[str]] = {}
    for row in _rows():
        halves.setdefault(row["repository"], set()).add(row["half"])
    assert [name for name, sides in halves.items() if len(sides) > 1] == []


def test_no_repository_is_one_that_the_rules_were_written_with() -> None:
    public = tomllib.loads((_HERE / "public.toml").read_text())
    readings = tomllib.loads((_HERE / "readings.toml").read_text())
    known = {each["repository"] for table in (public, readings) for rows in table.values() for each in rows}
    assert {row["repository"] for row in _rows()} & known == set()
