"""Real labs are asked what rules believe of Slurm, where the rule's own example shows it on no lab or on one version.

`pytest tests/lint/test_beliefs.py tests/lint/test_runs.py -m lab --slurm system,24.11,26.05` asks all three.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import Person, lab_up

_TWO = "-N2 --ntasks-per-node=1"
_VARIABLES = 'for v in GPUS GPUS_PER_NODE NTASKS NPROCS CPUS_PER_TASK; do x=SLURM_$v; echo "$v=${!x-unset}"; done'
_GPUS = "tr , '\\n' <<<$CUDA_VISIBLE_DEVICES | wc -w"
_ASK = """\
for each in */job.sh; do (cd ${each%/*}; BAR=b sbatch job.sh > said 2>&1) done
for _ in $(seq 240); do [ -z "$(squeue -h -t PD,R,CG)" ] && break; sleep 0.5; done
"""
# The rule, the header, the script, and what the output, or the answer of sbatch, is like.
BELIEFS = {
    "directive-expands": ("--nodes=$N", "date", "not a valid node count"),
    "directive-expands, time": ("--time=$T", "date", "Invalid --time specification"),
    "directive-expands, partition": ("--partition=$P", "date", "Invalid partition name"),
    "directive-expands, array": ("--array=0-$N", "date", "Invalid job array specification"),
    "directive-expands, CPUs": ("--cpus-per-task=$N", "date", "Invalid numeric value"),
    "directive-expands, account": ("--account=$A", "echo is taken", "is taken"),
    "directive-unknown": ("--workdir=/tmp", "date", "unrecognized option"),
    "directive-value": ("--mail-type=START", "date", "Invalid --mail-type specification"),
    "directive-without-option": ("-N 2 nodes", "date", "Invalid directive found in batch script: nodes"),
    "time-in-minutes": ("--time=24:00", "squeue -ho %l -j $SLURM_JOB_ID", r"^24:00\n"),
    "memory-in-megabytes": ("--mem=640", "scontrol show job $SLURM_JOB_ID", "MinMemoryNode=640M"),
    "gpus-of-node-twice": ("--gres=gpu:2 --gpus-per-node=1", _GPUS, r"^2\n|mutually exclusive"),
    "gpus-of-node-twice, less": ("--gres=gpu:1 --gpus-per-node=2", _GPUS, r"^1\n|mutually exclusive"),
    "gpus-of-node-twice, a type at one": (
        "--gres=gpu:v100:1 --gpus-per-node=1",
        "date",
        "with and without type|mutually exclusive",
    ),
    "gpus-not-asked-for": ("-N1", "echo ${CUDA_VISIBLE_DEVICES-none}", "none"),
    "visible-devices-literal": ("-N1 --gres=gpu:2", 'CUDA_VISIBLE_DEVICES=9 srun bash -c "$GPUS"', r"^2\n"),
    "gpu-bind-hides": ("-N1 -n2 --gres=gpu:2", 'srun --gpu-bind=per_task:1 bash -c "$GPUS"', r"^1\n1\n"),
    "export-drops-environment": ("--export=FOO", "echo ${BAR-gone}", "gone"),
    "export-none-reaches-srun": ("--export=NONE", "X=1; export X; srun /bin/sh -c 'echo ${X-gone}'", "gone"),
    "one-cpu": ("-N1 --gres=gpu:4", "echo $SLURM_CPUS_ON_NODE", r"^1\n"),
    "rank-in-batch-shell": (_TWO, 'echo "$SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID"', "0 0 0"),
    "file-beside-script": ("-N1", 'ls "$(dirname "$0")"', r"^slurm_script\n$"),
    "slurm-variable-unset": ("-N2 --gres=gpu:2", _VARIABLES, r"^(\w+=unset\n){5}$"),
    "slurm-variable-unset, GPUs of a task": (
        "-n1 --gpus-per-task=1",
        "echo $(sinfo -V) ${SLURM_GPUS_PER_TASK-unset}",
        r"^(?!.*(22\.05\S* unset|(24\.11|26\.05)\S* 1))slurm",
    ),
    "output-folder, chdir": ("--chdir=none", "pwd", r"(?m)^/tmp$"),
    "tasks-of-node-unused": ("-N2 -n1", "echo $SLURM_NNODES $SLURM_NTASKS", "1 1"),
    "srun-cpus-per-task": (
        "-N1 -n2 -c2",
        "echo $(sinfo -V) $(srun -n4 echo one | wc -l) $(SRUN_CPUS_PER_TASK=1 srun -n4 echo two | wc -l)",
        r"(?m)^slurm\S* (22\.05\S* 4 4|(24\.11|26\.05)\S* 0 0)$",
    ),
    "nodes-pinned": (
        "-w node1 -N1 --exclusive",
        "id=$(sbatch --parsable -w node1 -o x --exclusive --wrap id); sleep 4; squeue -ho %r -j $id; scancel $id",
        r"(?s)Resources|Priority",
    ),
    "nodes-pinned, more names": (
        "-N1 -w node[1-2]",
        "echo $(sinfo -V) $SLURM_NNODES $SLURM_JOB_NODELIST",
        r"invalid number of nodes \(-N 2-1\)|slurm\S* (24\.11|26\.05)\S* 1 node[12]\n",
    ),
    "srun-survivors": (
        "-N1 -n2",
        "srun sh -c '[ $SLURM_PROCID = 1 ] && exit 3; sleep 1; echo stays'",
        "stays",
    ),
}


@pytest.fixture(scope="module")
def answers(tester: Person, slurm_version: str, scratch: Path) -> dict[str, str]:
    top = scratch / f"beliefs-{slurm_version}"
    for number, (header, script, _) in enumerate(BELIEFS.values()):
        (top / str(number)).mkdir(parents=True)
        output = top / str(number) / "out"
        text = f"#!/bin/bash\n#SBATCH {header}\n#SBATCH -o {output}\nexport GPUS='{_GPUS.replace(chr(39), chr(34))}'\n"
        (top / str(number) / "job.sh").write_text(f"{text}{script}\n")
    size = ("-N", "4", "--cpus-per-node", "32", "--gpus-per-node", "16", "--memory", "64G")
    with lab_up(tester, "beliefs", "--slurm", slurm_version, *size) as lab:
        checked(lab.exec(["bash", "-c", _ASK], cwd=top, timeout_s=500))
    return {name: _said(top / str(number)) for number, name in enumerate(BELIEFS)}


def _said(folder: Path) -> str:
    """Return what a job wrote; where it wrote nothing, what sbatch said."""
    output = folder / "out"
    return (output if output.exists() else folder / "said").read_text()


@pytest.mark.lab
@pytest.mark.parametrize("name", BELIEFS)
def test_slurm_does_what_a_rule_says_of_it(name: str, answers: dict[str, str], slurm_version: str) -> None:
    assert re.search(BELIEFS[name][2], answers[name]), (slurm_version, answers[name])
