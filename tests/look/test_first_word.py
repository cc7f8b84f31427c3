"""What is seen of a command before it queues: a misspelt program, a job script, a script that no Python reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from launch.plans import plan
from muster.act.output_folder import make_output_folders
from muster.errors import RequestError
from muster.look.first_word import notes_on_command
from muster.runner import ProgramResult, Runner


def _notes(folder: Path, *words: str) -> list[str]:
    return list(notes_on_command(words, folder, {"PATH": "/usr/bin:/bin"}))


def test_a_misspelt_program_is_said_with_the_word_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no program 'pyhton3' here") as refused:
        _notes(tmp_path, "pyhton3", "x.py")
    assert refused.value.hint == "did you mean 'python3'?"
    assert _notes(tmp_path, "pythn3") == ["the program 'pythn3' is not on PATH here: did you mean 'python3'?"]
    assert list(notes_on_command(("pyhton3",), tmp_path, {"PATH": "/no/such"})), "the nodes may have what is not here"
    (note,) = notes_on_command(("python",), tmp_path, {"PATH": "/no/such"})
    assert note == "the program 'python' is not on PATH here: did you mean 'python3'?"
    assert _notes(tmp_path, "vasp_std") == ["the program 'vasp_std' is not on PATH here: is it on the nodes?"]
    assert _notes(tmp_path, "sh", "-c", "true") == []


def test_a_job_script_is_no_command(tmp_path: Path) -> None:
    (tmp_path / "my.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun hostname\n")
    with pytest.raises(RequestError, match="is a job script, but") as refused:
        _notes(tmp_path, "my.sbatch")
    assert "sbatch my.sbatch" in (refused.value.hint or "")
    (tmp_path / "train").write_text("#!/bin/bash\n")
    with pytest.raises(RequestError, match="not a program on PATH") as refused:
        _notes(tmp_path, "train")
    assert "./train" in (refused.value.hint or "")


def test_a_script_that_no_python_reads_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import os\ndef (\n")
    (tmp_path / "good.py").write_text("x = '\\d'\n")
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\n")
    assert _notes(tmp_path, str(other), "bad.py")[-1].startswith("bad.py, line 2: ")
    assert not any("line" in note for note in _notes(tmp_path, "python3", "good.py"))
    assert not any("line" in note for note in _notes(tmp_path, "python3", "-m", "bad.py"))


def test_a_script_that_the_ranks_python_cannot_read_is_refused(tmp_path: Path) -> None:
    """The Python that runs Muster is theirs: it is certain."""
    (tmp_path / "bad.py").write_text("import os\ndef (\n")
    with pytest.raises(RequestError, match=r"bad\.py, line 2: ") as refused:
        _notes(tmp_path, sys.executable, "bad.py")
    assert refused.value.hint == "correct that line: no rank would get further"


@pytest.mark.parametrize(
    ("words", "is_read"),
    [
        ("python3.0 -X dev train.py", True),
        ("python3.0 -W ignore -u train.py --x 1", True),
        ("python3.0 -m pkg train.py", False),
        ("python3.0 -c pass train.py", False),
        ("python3.0 - train.py", False),
    ],
)
def test_the_script_is_the_word_that_python_takes_for_one(tmp_path: Path, words: str, is_read: bool) -> None:
    (tmp_path / "train.py").write_text("x = (\n")

    assert any("train.py, line 1" in note for note in _notes(tmp_path, *words.split())) == is_read


def test_the_folder_of_an_output_is_made(tmp_path: Path) -> None:
    make_output_folders(plan("--chdir", str(tmp_path), "-o", "reports/all/R-%x.%j.out", "--", "x"), nobody)
    assert (tmp_path / "reports/all").is_dir()


def nobody(argv: Sequence[str], **_: object) -> ProgramResult:
    raise AssertionError(f"nothing is asked where Slurm fills in nothing: {argv}")


def version_is(version: str) -> Runner:
    return lambda argv, **_: ProgramResult(tuple(argv), 0, version, "")


@pytest.mark.parametrize("version", ["slurm 23.02.0", "slurm 26.05.5", "no version"])
def test_a_folder_that_slurm_makes_is_left_to_slurm(tmp_path: Path, version: str) -> None:
    words = ("--chdir", str(tmp_path), "-o", "logs/run-%j/out/%x.log", "--", "x")
    make_output_folders(plan(*words), version_is(version))
    assert [path.name for path in tmp_path.rglob("*")] == ["logs"]


@pytest.mark.parametrize(("name", "says"), [("%x/out.log", "older than 23.02"), ("file/out.log", "cannot be made")])
def test_a_folder_that_nobody_can_make_is_refused(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match=says):
        make_output_folders(plan("--chdir", str(tmp_path), "-o", name, "--", "x"), version_is("slurm 22.05.8"))
