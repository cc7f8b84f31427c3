"""The mistakes that everybody makes first: each answer says what happened, where, and what to type instead.

`where` is what was typed, or the place it was looked for; `do` is a word of the hint that can be typed.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from muster.cli.app import main

LUMI = "plan --site lumi -A project_465000000"
MISTAKES = [
    ("run --nodse 2 -- python train.py", "--nodse", "--nodes"),
    ("run --ntasks 4 -- python train.py", "--ntasks", "--ntasks-per-node"),
    ("run -n 4 -- python train.py", "-n", "--ntasks-per-node"),
    ("run --gpus 4 -- python train.py", "--gpus", "-g GPUS_PER_NODE"),
    ("run --cpus 4 -- python train.py", "--cpus", "-c N"),
    ("run -N two -- python train.py", "'two'", "a whole number"),
    ("run -N 0 -- python train.py", "'0'", "a whole number"),
    ("run -N 2", "command", "-- python train.py"),
    ("run --here -- python trian.py", "trian.py", "train.py"),
    ("run --here -- 'python train.py'", "'python train.py'", "-- python train.py"),
    ("submit job.sbatch", "job.sbatch", "sbatch job.sbatch"),
    ("plan -t 1x -N 2 -- python train.py", "'1x'", "90m"),
    ("plan --mem 10X -N 2 -- python train.py", "'10X'", "64G"),
    ("plan --site LUMI -N 2 -- python train.py", "'LUMI'", "lumi"),
    ("plan --site lumii -N 2 -- python train.py", "'lumii'", "lumi"),
    ("plan --site lumi -N 2 -- python train.py", "lumi", "--account"),
    (f"{LUMI} -t 5-00:00:00 -N 2 -- python train.py", "standard-g", "--time"),
    (f"{LUMI} -t 30 -N 20000 -- python train.py", "standard-g", "-N 1024"),
    (
        f"{LUMI} -t 30 -g 8 --exclude nid[001-00 -- python train.py",
        "'nid[001-00' is not a list of nodes",
        "node[1-4,7]",
    ),
    (f"{LUMI} -t 30 -g 8 -w n1,,[2 -- python train.py", "-w", "node[1-4,7]"),
    (f"{LUMI} -t 30 -g 8 --env LR= 0.1 -- python train.py", "0.1 stands before --", "--env LR=0.1"),
    ("queues -p standard-g", "there is no option -p", "there are --json"),
    ("resume 12", "'resume'", "muster docs weeks"),
    (f"{LUMI} -t 30 -N 2 -g 16 -- python train.py", "16 GPUs", "--gpus-per-node 8"),
    ("plan -N 2 --image nosuch.sif -- python train.py", "nosuch.sif", "muster build image"),
    ("plan -g 2 --ntasks-per-node 4 -- python train.py", "2 are asked for", "--gpus-per-node 4"),
    ("run -N 2 -- srun python train.py", "srun", "--launcher srun"),
    ("run -N 2 -- torchrun --nproc-per-node 4 train.py", "torchrun", "--launcher torchrun"),
    ("run -N 2 -- mpirun -np 4 python train.py", "mpirun", "--launcher mpirun"),
    ("plan --launcher torch -N 2 -- python train.py", "'torch'", "torchrun"),
    ("run --here -- pyhton train.py", "'pyhton' is not on PATH", "did you mean 'python'?"),
    ("logs", "no job is named", "muster jobs"),
    ("shell -p gpu 12 -- nvidia-smi", "-p is for a new job", "muster shell 12"),
    ("stacks --here 12", "job 12 is one of Slurm", "muster stacks 12"),
    ("plan --as why --json -- hostname", "--as why", "one of them"),
    ("port --as line --json job.sbatch", "--as line", "one of them"),
    ("lint --format short --json job.sbatch", "--format short", "one of them"),
    ("cancel", "a job id", "muster jobs"),
    ("squeue", "'squeue'", "muster jobs"),
    ("lab donw", "'donw'", "'down'"),
    ("docs jbos", "'jbos'", "'jobs'"),
    ("site show lumii", "'lumii'", "'lumi'"),
]


@pytest.mark.parametrize(("words", "where", "do"), MISTAKES, ids=[words for words, _, _ in MISTAKES])
def test_a_mistake_is_answered_with_what_to_type(
    words: str, where: str, do: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.distributed.init_process_group()\n")
    (tmp_path / "job.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun python train.py\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    status = main(shlex.split(words))

    said = capsys.readouterr().err
    what, _, hint = said.partition("\n\nhint: ")
    assert status in {2, 3}
    assert "muster: error: " in what
    assert where in what
    assert do in hint
    assert "bug in Muster" not in said
