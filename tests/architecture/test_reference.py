"""Pages that are made from the code are those that the code makes today."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.runner import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("script", ["scripts/make_reference.py", "scripts/make_example_scripts.py"])
def test_the_page_is_current(script: str) -> None:
    result = run([sys.executable, str(ROOT / script), "--check"])

    assert result.ok, f"run {script}, and read what it changed"
