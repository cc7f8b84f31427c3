"""The golden scripts are those that a person gets: `muster`, typed beside a training, writes the same bytes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from plugins.forked import run_muster

from .outlines import without_digests
from .test_script import GOLDEN

_TRAINING = """\
import torch
import torch.distributed as dist

dist.init_process_group()
print(torch.ones(1))
"""


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ("srun", ("-N", "2", "-g", "4", "-c", "8", "-t", "1:30:00", "-A", "science")),
        ("torchrun", ("-N", "4", "-g", "4")),
        ("mpirun", ("-N", "2", "--ntasks-per-node", "4")),
    ],
)
def test_a_training_that_is_typed_gives_the_golden_script(
    launcher: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    home, project, python = tmp_path / "ada", tmp_path / "ada/project", tmp_path / "ada/env/bin/python"
    for folder in (project, python.parent):
        folder.mkdir(parents=True)
    (project / "train.py").write_text(_TRAINING)
    python.symlink_to(sys.executable)
    (python.parent / "activate").touch()
    (python.parent / "scontrol").symlink_to("/bin/false")  # jobs are queued from here
    environment = {
        "HOME": str(home),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(python.parent.parent),
        "MUSTER_LAUNCHER": launcher,
    }

    written = run_muster(["plan", *words, "--as", "script", "--", "python", "train.py"], env=environment, cwd=project)

    assert written.ok, written.stderr
    script = written.stdout.replace(sys.executable, "/opt/muster/bin/python").replace(str(home), "/home/ada")
    script = re.sub(r"(rank-library|texts)/[0-9a-f]{8}", r"\1/0", without_digests(script))
    assert _unfolded(script) == _unfolded((GOLDEN / f"{launcher}.sh").read_text())


def _unfolded(script: str) -> str:
    """Return a script in which each command is one line below its comment: a path's length decides what is folded."""
    return re.sub(r"^( *)(\S.*)  (# .*)$", r"\1\3\n\1\2", re.sub(r" \\\n +", " ", script), flags=re.MULTILINE)
