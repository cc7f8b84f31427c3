"""What two readers who had not seen the rules listed in public scripts of 2026-11-27, in short scripts of our own."""

from __future__ import annotations

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of

_HEAD = "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n"
_GPU = _HEAD + "#SBATCH --gres=gpu:1\n"
_NODES = "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
_SRUN = "srun -K torchrun --nproc-per-node=4 "
_LOCAL = "at its own 127.0.0.1"

_FOUND = {
    "agents without a meeting point": ("rendezvous-missing", _LOCAL, _NODES + _SRUN + "--nnodes=$SLURM_NNODES t.py\n"),
    "an address that torchrun does not read": (
        "rendezvous-missing",
        "torchrun does not read MASTER_ADDR",
        _NODES + "export MASTER_ADDR=$(hostname)\n" + _SRUN + "--nnodes=2 --node-rank=1 t.py\n",
    ),
    "c10d without an endpoint": (
        "rendezvous-missing",
        "there is no --rdzv-endpoint",
        _NODES + _SRUN + "--nnodes=2 --rdzv-backend=c10d t.py\n",
    ),
    "nodes that sbatch is asked for": (
        "rendezvous-missing",
        "not known: how many nodes",
        "#!/bin/bash\n#SBATCH --time=60\n" + _SRUN + "--nnodes=$SLURM_NNODES t.py\n",
    ),
    "accelerate without an address": (
        "rendezvous-missing",
        "not known: what accelerate's own settings name",
        _NODES + "srun -K accelerate launch --num_machines 2 --machine_rank 0 t.py\n",
    ),
    "a static endpoint for all": (
        "node-rank-missing",
        "node 0",
        _NODES + _SRUN + "--nnodes=2 --rdzv-endpoint=$h:1 t.py\n",
    ),
    "a job of comments": ("work-switched-off", "starts none", _GPU + "nvidia-smi\n# srun python t.py --lr 1\n"),
    "a job that installs alone": (
        "work-switched-off",
        "installs packages",
        _GPU + "pip install numpy\n#!python t.py\n#python u.py\n",
    ),
    "packages of a job of comments": ("install-in-job", "pip", _GPU + "pip install numpy\n#python t.py\n"),
}


def _messages(text: str, rule: str) -> list[str]:
    return [each.message for each in lint_source(source_of("job.sh", text)) if each.rule == rule]


@pytest.mark.parametrize("name", _FOUND)
def test_what_strangers_saw_is_found(name: str) -> None:
    rule, words, text = _FOUND[name]
    assert any(words in message for message in _messages(text, rule)), _messages(text, rule)


_RIGHT = {
    "one node": ("rendezvous-missing", _HEAD + _SRUN + "--nnodes=1 t.py\n"),
    "nodes of the environment": (
        "rendezvous-missing",
        _NODES + "export PET_RDZV_ENDPOINT=$h:1\n" + _SRUN + "--nnodes=2 t.py\n",
    ),
    "a meeting point in a variable": ("rendezvous-missing", _NODES + _SRUN + "--nnodes=2 $RDZV t.py\n"),
    "an address of torchrun": ("rendezvous-missing", _NODES + _SRUN + "--nnodes=2 --master-addr=$h t.py\n"),
    "a step of one node": ("rendezvous-missing", _NODES + "srun -N1 -n1 torchrun --nnodes=2 t.py\n"),
    "a line that is cut": (
        "rendezvous-missing",
        _NODES + "srun torchrun --nnodes=2 \\ # nodes\n--master_addr=$h t.py\n",
    ),
    "settings of accelerate": (
        "rendezvous-missing",
        _NODES + "srun -K accelerate launch --config_file a.yaml --num_machines 2 t.py\n",
    ),
    "torchrun's own port": ("variable-unread", _NODES + "export MASTER_PORT=29500\n" + _SRUN + "--nnodes=2 t.py\n"),
    "an environment that runs": ("work-switched-off", _GPU + "#python t.py\nconda run -n a python u.py\n"),
    "another program": ("work-switched-off", _GPU + "#python t.py\n./run.sh\n"),
    "a sentence on a program": ("work-switched-off", _GPU + "# python is loaded here\nhostname\n"),
    "a file that may do the work": ("work-switched-off", _GPU + "#python t.py\nsource run.sh\n"),
    "a build that is off": ("work-switched-off", _GPU + "#python setup.py install\nhostname\n"),
}


@pytest.mark.parametrize("name", _RIGHT)
def test_what_is_right_is_not_blamed(name: str) -> None:
    rule, text = _RIGHT[name]
    assert _messages(text, rule) == []
