"""`muster build venv`: an environment that is whole or not there, what is refused, and the record of what it is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from muster.act.runner import Result, run
from muster.build.venv import RECORD
from plugins.labs import MUSTER


def build(folder: Path, *words: str) -> Result:
    return run([MUSTER, "build", "venv", *words], cwd=folder, env=os.environ, timeout_s=200)


def test_an_environment_is_made_with_its_record(tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("# nothing yet\n")
    result = build(tmp_path, "env", "--requirements", "none.txt")

    assert result.ok, result.stderr
    assert result.stdout == f"{tmp_path}/env\n"
    record = json.loads((tmp_path / "env" / RECORD).read_text())
    assert record["python"] == sys.version.split()[0]
    assert record["requirements"] == [f"{tmp_path}/none.txt"]
    again = build(tmp_path, "env")
    assert again.status == 2
    assert "is there already" in again.stderr


def test_what_is_not_finished_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "wrong.txt").write_text("/no/such/package.whl\n")
    result = build(tmp_path, "env", "--requirements", "wrong.txt")

    assert result.status == 3
    assert "pip install --requirement" in result.stderr
    assert "hint: " in result.stderr
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a", "b"), "makes one directory, and 2 are named"),
        (("env", "--with", "hovorod"), "did you mean 'horovod'"),
        (("env", "--nccl", "/opt/nccl"), "says with which NCCL Horovod is built"),
        (("env", "--requirements", "gone.txt"), "there is no file"),
        (("env", "--python", "/no/python"), "is not on PATH"),
        (("env", "--with"), "wants a value"),
    ],
)
def test_what_cannot_be_made_is_a_sentence_with_a_hint(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    result = build(tmp_path, *words)

    assert result.status == 2
    assert sentence in result.stderr
    assert "hint: " in result.stderr
    assert not list(tmp_path.iterdir())
