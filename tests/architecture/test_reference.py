"""Pages that are made from the code are those that the code makes today."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from muster.runner import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "script",
    [
        "scripts/make_reference.py",
        "scripts/make_example_scripts.py",
        "scripts/make_script_page.py",
        "scripts/make_life_page.py",
        "scripts/make_picture.py",
    ],
)
def test_the_page_is_current(script: str) -> None:
    result = run([sys.executable, str(ROOT / script), "--check"])

    assert result.ok, f"run {script}, and read what it changed"


def test_every_function_of_the_script_says_what_it_does() -> None:
    from muster.render.functions import functions_in

    silent = [
        f"{path.name}: {name}"
        for path in sorted((ROOT / "src/muster/render/shell").rglob("*.sh"))
        for name, comment in functions_in(path.read_text())
        if not comment
    ]

    assert silent == []


def test_a_part_has_one_name_and_stands_in_a_room_of_the_readme() -> None:
    from muster.render.parts import SHELL, part_files

    files = sorted(Path(SHELL).rglob("*.sh"))
    readme = Path(SHELL, "README.md").read_text()

    assert sorted(map(Path, part_files().values())) == files
    assert {path.parent.name for path in files} == set(
        re.findall(r"^\| `([a-z]+)/` \|", readme.split("Which parts")[0], re.MULTILINE)
    )
