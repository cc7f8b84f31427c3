"""How `muster site show` writes the values of a profile."""

from __future__ import annotations

from pathlib import Path

from muster.sites.load import load
from muster.sites.tell import lines

from .profiles import HEAD, written


def test_a_switch_is_yes_or_no_and_an_empty_list_none(tmp_path: Path) -> None:
    text = HEAD + "[partitions.a]\ndefault = true\n[partitions.b]\ndefault = false\n[launch]\nallowed = []\n"
    shown = {line.key: line.value for line in lines(load(str(written(tmp_path, text))))}

    assert shown["partitions.a.default"] == "yes"
    assert shown["partitions.b.default"] == "no"
    assert shown["launch.allowed"] == "none"
