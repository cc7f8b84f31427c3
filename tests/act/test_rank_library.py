"""`import muster` in a rank whose own environment has none: found, last, and nothing else comes with it."""

from __future__ import annotations

import os
import venv
from pathlib import Path

import pytest

from muster.act.rank_library import make_rank_library
from muster.errors import RequestError
from plugins.forked import run_muster

SHOW = "import muster, sys; print(muster.__version__); print([p for p in sys.path if 'rank-library' in p][-1])"


def test_a_rank_of_another_environment_imports_muster_and_nothing_beside_it(tmp_path: Path) -> None:
    other = tmp_path / "other"
    venv.create(other, symlinks=True, with_pip=False)
    bare = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    environment = {**bare, "VIRTUAL_ENV": str(other), "XDG_DATA_HOME": str(tmp_path / "data")}
    muster = ["run", "--here", "--"]

    found = run_muster([*muster, "python", "-c", SHOW], env={**environment, "PATH": f"{other}/bin:{bare['PATH']}"})
    beside = run_muster([*muster, f"{other}/bin/python", "-c", "import pytest"], env=environment)

    assert found.ok, found.stderr
    assert found.stdout.splitlines()[1].startswith(str(tmp_path / "data"))
    assert "No module named 'pytest'" in beside.stderr


def test_made_twice_it_is_the_same(tmp_path: Path) -> None:
    for _ in range(2):
        make_rank_library(str(tmp_path / "library"))

    assert [each.name for each in (tmp_path / "library").iterdir()] == ["muster"]


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RequestError, match="cannot be made"):
        make_rank_library(str(tmp_path / "file" / "library"))
