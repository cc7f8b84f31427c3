"""Guards that a job's output is found under the name that sbatch makes of its pattern."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runner import checked
from muster.slurm.filenames import glob_of
from plugins.labs import Lab


@pytest.mark.parametrize(
    ("pattern", "glob"),
    [
        ("slurm-%j.out", "slurm-77.out"),
        ("%x-%j.txt", "train-77.txt"),
        ("%5j", "00077"),
        ("%99j", "0000000077"),
        ("100%%-%j", "100%-77"),
        ("%A_%a", "*_*"),
        ("%N/%j", "*/77"),
        ("a[1]*?%j", "a[[]1][*][?]77"),
        ("100%", "100%"),
        ("a\\%j", "a%j"),
    ],
)
def test_a_pattern_becomes_a_glob(pattern: str, glob: str) -> None:
    assert glob_of(pattern, {"j": "77", "x": "train"}) == glob


@given(st.text(st.characters(blacklist_characters="%\\"), max_size=40))
def test_what_is_no_pattern_matches_itself_alone(name: str) -> None:
    glob = glob_of(name, {})
    assert fnmatchcase(name, glob)
    assert not fnmatchcase(name + "x", glob)


@pytest.mark.lab
@pytest.mark.parametrize("pattern", ["out-%j.txt", "%x_%5j", "100%%-%j", "%u.%j.%N", "a[1]-%j", "star*-%j"])
def test_sbatch_makes_the_file_that_we_look_for(lab: Lab, shared_directory: Path, pattern: str) -> None:
    words = ["sbatch", "--wait", "--parsable", "-J", "na*me", f"--output={pattern}", "--wrap=echo here"]
    job = checked(lab.exec(words, cwd=shared_directory)).stdout.strip()
    found = list(shared_directory.glob(glob_of(pattern, {"j": job, "x": "na*me"})))
    assert [path.read_text() for path in found] == ["here\n"]
