"""Where pip looks for packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import CommandFailed, RequestError
from muster.runner import run
from muster_build.pip import offline_words, pip


def test_pip_looks_nowhere_else_only_if_it_is_offline(tmp_path: Path) -> None:
    assert offline_words(None, offline=False) == ()
    assert offline_words(tmp_path, offline=False) == ("--find-links", str(tmp_path))
    assert offline_words(tmp_path, offline=True) == ("--no-index", "--find-links", str(tmp_path))


@pytest.mark.parametrize(("name", "offline"), [("", True), ("missing", True), ("missing", False)])
def test_a_wheelhouse_that_is_not_there_is_refused(name: str, offline: bool, tmp_path: Path) -> None:
    with pytest.raises(RequestError):
        offline_words(tmp_path / name if name else None, offline=offline)


def test_a_pip_that_says_nothing_is_named_with_its_status(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="pip install: it said nothing"):
        pip(tmp_path / "python", ["install", "x"], {}, runner=lambda *_, **__: run(["false"]))
