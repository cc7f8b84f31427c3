"""Nothing is lost in silence: every line of every script is in its table. And what is read is what was meant."""

from __future__ import annotations

import re
import subprocess

import pytest

from muster_lint.port.target import request_of
from muster_lint.port.values import Fate, line_of
from muster_lint.rule import all_rules
from muster_lint.values import Rule

from .scripts import lacking, read

BATCH = [rule for rule in all_rules() if rule.language == "batch"]
_HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=10\n"


def _line(body: str, head: str = _HEAD) -> str:
    _, draft = read(head + body)
    return line_of(draft.words(), draft.command)


@pytest.mark.parametrize("rule", BATCH, ids=lambda rule: rule.name)
def test_nothing_of_an_example_is_lost(rule: Rule) -> None:
    """The rules' own examples are the strangest scripts that we have."""
    for text in (rule.bad, rule.good):
        if ("srun" not in text and "SBATCH" not in text) or re.search(r"^\s*sbatch ", text, re.MULTILINE):
            continue
        job, draft = read(text)
        assert lacking(job, draft) == []


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("srun python train.py --lr 1", "muster submit -N 2 -g 4 -t 10 -- python train.py --lr 1"),
        ("module load cuda\nsrun python a.py", "muster submit -N 2 -g 4 -t 10 --module cuda -- python a.py"),
        ("source env/bin/activate\nsrun python a.py", "muster submit -N 2 -g 4 -t 10 --venv env -- python a.py"),
        ("conda activate torch\nsrun python a.py", "muster submit -N 2 -g 4 -t 10 --conda torch -- python a.py"),
        ("cd /work/me\nsrun python a.py", "muster submit -N 2 -g 4 -t 10 -D /work/me -- python a.py"),
        ("export A=1\nunset B\nsrun python a.py", "muster submit -N 2 -g 4 -t 10 --env A=1 --unset-env B -- python a.py"),
        ("export A=x_$SLURM_JOB_ID\nsrun python a.py", "muster submit -N 2 -g 4 -t 10 --env 'A=x_{job_id}' -- python a.py"),
        ("srun python a.py --n $SLURM_NNODES", "muster submit -N 2 -g 4 -t 10 -- bash -c 'exec python a.py --n \"$SLURM_NNODES\"'"),
        ("srun --ntasks-per-node=1 rm -rf /tmp/x\nsrun python a.py", "muster submit -N 2 -g 4 -t 10 --node-prologue 'rm -rf /tmp/x' -- python a.py"),
        ("srun --mpi=pmix --label python a.py", "muster submit -N 2 -g 4 -t 10 --mpi pmix -- python a.py"),
        ("srun -lu python a.py", "muster submit -N 2 -g 4 -t 10 -- python a.py"),
        ("srun --container-image=nvcr.io#nvidia/pytorch:25.08-py3 python a.py", "muster submit -N 2 -g 4 -t 10 --image docker://nvcr.io/nvidia/pytorch:25.08-py3 -- python a.py"),
        ("srun torchrun --nproc-per-node=4 --nnodes=2 a.py", "muster submit -N 2 -g 4 -t 10 --launcher torchrun -- python a.py"),
        ("srun torchrun --nproc-per-node=2 -m pkg.train x", "muster submit -N 2 -g 4 --ntasks-per-node 2 -t 10 --launcher torchrun -- python -m pkg.train x"),
        ("mpirun -np 8 -x A=1 python a.py", "muster submit -N 2 -g 4 -t 10 --launcher mpirun --env A=1 -- python a.py"),
        ("srun accelerate launch --num_processes 8 --mixed_precision bf16 a.py", "muster submit -N 2 -g 4 -t 10 --launcher torchrun --env ACCELERATE_MIXED_PRECISION=bf16 -- python a.py"),
        ("srun bash -c 'export A=1; python a.py'", "muster submit -N 2 -g 4 -t 10 --env A=1 -- python a.py"),
        ("srun bash -c 'date; python a.py'", "muster submit -N 2 -g 4 -t 10 -- bash -c 'date; python a.py'"),
        ("srun bash -c 'python a.py | tee log'", "muster submit -N 2 -g 4 -t 10 -- bash -c 'python a.py | tee log'"),
        ("srun nsys profile -o out python a.py", "muster submit -N 2 -g 4 -t 10 -- nsys profile -o out python a.py"),
    ],
)  # fmt: skip
def test_a_script_means_this_line(body: str, line: str) -> None:
    assert _line(body) == line


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("--nodes=2 --ntasks-per-node=4 --gres=gpu:a100:4", "-N 2 --gres gpu:a100:4"),
        ("--nodes=2 --ntasks-per-node=4 --gpus-per-node=a100:4", "-N 2 --gres gpu:a100:4"),
        ("--nodes=2 --ntasks-per-node=4 --gpus=a100:8", "-N 2 --gres gpu:a100:4"),
        ("--nodes=2 --ntasks-per-node=4 --gres=gpu:4(S:0-1)", "-N 2 -g 4"),
        ("--ntasks=8 --ntasks-per-node=4 --gpus-per-task=1", "-N 2 -g 4"),
        ("--nodes=2 --ntasks=8 --gpus=8", "-N 2 -g 4"),
        ("--nodes=2 --ntasks-per-node=8 --gpus-per-node=4", "-N 2 -g 4 --ntasks-per-node 8"),
        ("-N2 -n8 -c4", "-N 2 -g 0 --ntasks-per-node 4 -c 4"),
        ("--nodes=1 --gpus-per-node=2 --mem-per-gpu=60G --ntasks-per-node=2", "-N 1 -g 2 --mem 120G"),
        ("--nodes=1 --ntasks-per-node=2 --cpus-per-task=4 --mem-per-cpu=2G", "-N 1 -g 0 --ntasks-per-node 2 -c 4 --mem 16G"),
    ],
)  # fmt: skip
def test_sizes(header: str, words: str) -> None:
    lines = "".join(f"#SBATCH {word}\n" for word in header.split())
    assert _line("srun python a.py", f"#!/bin/bash\n{lines}") == f"muster submit {words} -- python a.py"


@pytest.mark.parametrize(
    ("text", "what", "why"),
    [
        ("#SBATCH --begin=now+1hour\n", "--begin", ""),
        ("#SBATCH --nosuchflag=1\n", "--nosuchflag", "sbatch has no --nosuchflag"),
        ("#SBATCH --signal=B:USR1@60\n", "--signal", "for the batch script alone"),
        ("#SBATCH --wait\n", "--wait", "hold the submission"),
        ("#SBATCH --time=tomorrow\n", "--time", "is not a time limit"),
        ("tar xf data.tar -C /tmp\n", "tar", "--stage DATA"),
        ("for i in 1 2; do\n  srun python b.py\ndone\n", "srun python b.py", "the launch of line 9 alone"),
        ("srun python b.py &\n", "srun python b.py", "the launch of line 7 alone"),
        ("if [ -f x ]; then\n  cp x y\nfi\n", "if [ -f x ]", "no branches"),
        ("source setup.sh\n", "source setup.sh", "a file of yours"),
        ("cat <<EOF > conf\n$(cat <<IN\na\nIN\n)\nEOF\n", "cat", ""),
    ],
)
def test_what_muster_has_no_place_for_is_said(text: str, what: str, why: str) -> None:
    job, draft = read(_HEAD + text + "srun python a.py\n")
    assert lacking(job, draft) == []
    assert [row for row in draft.rows if what in row.what and why in row.why], draft.rows


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        ("srun torchrun --nproc_per_node=4 a.py", "the script starts 4 agents on each node, and Muster one"),
        ("srun -n2 torchrun --nproc_per_node=4 a.py", "each node is alone"),
        ("mpirun -np 4 torchrun --nproc_per_node=4 a.py", "the script starts 2 agents on each node"),
        ("srun -n $N torchrun --nproc_per_node=4 a.py", ""),
        ("srun python a.py &", "the script goes on beside it"),
    ],
)
def test_a_launch_says_of_the_script_what_the_script_does(launch: str, why: str) -> None:
    _, draft = read(f"#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n{launch}\n")
    said = "; ".join(row.why for row in draft.rows)
    assert why in said
    assert ("agents on each node" in said) == ("agents" in why)


def test_a_directive_behind_a_command_was_never_read() -> None:
    _, draft = read(_HEAD + "echo\n#SBATCH --qos=x\nsrun python a.py\n")
    assert "qos" not in draft.values
    assert any("Slurm never read it" in row.why for row in draft.rows)


def test_the_line_is_one_that_the_shell_and_muster_read(tmp_path: object) -> None:
    """Quotes, dollars and blanks arrive in the rank as the script's own shell would hand them over."""
    text = _HEAD + "export D='a b'\nsrun python a.py --x=\"$D\" 'it'\"'\"'s' \"$HOME/x\"\n"
    _, draft = read(text)
    request = request_of(draft)
    shell = ["env", "HOME=/h", *request.command]
    shell[-1] = shell[-1].replace("exec python a.py", "printf '%s\\n'")
    said = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert said == "--x=a b\nit's\n/h/x\n"


def test_what_stands_in_a_branch_or_a_loop_is_asked() -> None:
    text = (
        "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n"
        'if [ "$1" = big ]; then\n  module load nccl\n  export BATCH=512\nfi\n'
        "for i in 1 2; do\n  srun python eval.py $i\ndone\nwhile ! test -f done; do sleep 1; done\n"
    )
    _, draft = read(text)
    asked = {row.line for row in draft.rows if row.verdict is Fate.ASKED}
    assert asked >= {4, 5, 6, 8, 9, 11}
    row = next(row for row in draft.rows if row.line == 5)
    assert "the if of line 4" in row.why
