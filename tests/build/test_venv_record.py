"""A virtual environment that runs with other parts than it was built with is named before the ranks start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from muster.act.runner import run
from muster.act.venv_record import differences


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "lib/python3.11/site-packages/torch-2.3.0.dist-info").mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr\nversion = 3.11.7\n")
    (tmp_path / "muster.json").write_text(json.dumps({"modules": ["gcc/12"], "python": "3.11.7", "torch": "2.3.0"}))
    return tmp_path


def test_the_same_parts_are_no_finding(venv: Path) -> None:
    assert list(differences(venv, ["gcc/12"])) == []


def test_other_parts_are_findings(venv: Path) -> None:
    (venv / "lib/python3.11/site-packages/torch-2.3.0.dist-info").rename(venv / "torch-gone")
    (venv / "pyvenv.cfg").write_text("version = 3.12.1\n")
    found = list(differences(venv, []))
    assert len(found) == 3
    assert "the modules gcc/12, and will run with no modules" in found[0]
    assert "has 3.12.1 now" in found[1]
    assert "has none now" in found[2]


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_record_that_cannot_be_read_is_no_finding(venv: Path, text: str) -> None:
    (venv / "muster.json").write_text(text)
    assert list(differences(venv, [])) == []


def test_muster_run_says_it(tmp_path: Path) -> None:
    made = run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")])
    assert made.ok
    (tmp_path / "v/muster.json").write_text(json.dumps({"modules": ["gcc/12"]}))
    argv = [sys.executable, "-m", "muster", "run", "--here", "-g", "0", "--venv", str(tmp_path / "v"), "--", "true"]
    done = run(argv, cwd=tmp_path)
    assert "warning: " in done.stderr
    assert "was built with the modules gcc/12" in done.stderr
