"""What two readers who had not seen the rules listed in public scripts of 2026-11-27, in short scripts of our own."""

from __future__ import annotations

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of

_HEAD = "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n"
_GPU = _HEAD + "#SBATCH --gres=gpu:1\n"
_OWN = _HEAD + "mkdir /tmp/$SLURM_JOB_ID\n{}rm -rf /tmp/$SLURM_JOB_ID\n"
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
    "a folder that is removed with its results": (
        "results-removed",
        "what line 7 wrote into /scratch/$SLURM_JOB_ID is removed",
        _HEAD + "DIR=/scratch/${SLURM_JOB_ID}\nmkdir $DIR\nbash solve.sh $DIR\nrm -rf $DIR\n",
    ),
    "work on the node's disk": (
        "results-on-node-disk",
        "nothing is copied out of it",
        _HEAD + "cd $SLURM_TMPDIR\ncp -r ~/code/a.py .\npython a.py\necho DONE\n",
    ),
    "a copy at the end alone": (
        "results-on-node-disk",
        "at the time limit what it wrote into $SLURM_TMPDIR is lost: line 7 copies it",
        _HEAD.replace("=60", "=1-0") + "cd $SLURM_TMPDIR\npython ./a.py --save yes\ntar -cf ~/out.tar results\n",
    ),
    "a GPU for each task and one process": (
        "one-process-many-tasks",
        "4 tasks have a GPU each, and a.out is one process",
        _HEAD + "#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=1\n./a.out\n",
    ),
    "an mpirun of one": (
        "one-process-many-tasks",
        "mpirun starts 1 process in a job of 8 tasks",
        _HEAD + "#SBATCH --ntasks-per-node=8\nfor m in a b; do\n  mpirun -np 1 ./solve $m 4\ndone\n",
    ),
    "many tasks as the CPUs of one GPU": (
        "tasks-as-cpus",
        "48 tasks",
        "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --gres=gpu:1\n#SBATCH --ntasks-per-node=48\npython t.py\n",
    ),
    "one CPU for GROMACS": (
        "one-cpu",
        "one CPU",
        "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --gres=gpu:1\ngmx mdrun -ntmpi 1 -deffnm a\n",
    ),
    "Ray's CPUs": (
        "ray-counts-differ",
        "64 CPUs, and the header asks for 4",
        _HEAD + "ray start --head --num-cpus 64\npython t.py\n",
    ),
    "Ray's GPUs": ("ray-counts-differ", "8 GPUs", _GPU + "ray start --head --num-gpus=8\npython t.py\n"),
    "a folder of a loop": (
        "work-elsewhere",
        "if $d is missing, line 7 runs in another folder",
        _HEAD + "for d in a b; do\n  cd $d\n  somd2 x.bss\n  cd ..\ndone\n",
    ),
    "a folder that is said to be missing": (
        "check-goes-on",
        "the script goes on",
        _HEAD + 'if [[ ! -d $P ]]; then\n  echo "Can\'t find $P."\nelse\n  cd $P\nfi\npython do.py\n',
    ),
    "an argument that is said to be missing": (
        "check-goes-on",
        "the script goes on",
        _HEAD + 'if [ -z "$1" ]\nthen\n  echo "Error: no model"\nfi\npython do.py $1\n',
    ),
    "an installation in a command of variables": (
        "install-in-job",
        "every node installs",
        _NODES + 'I="cd /a; pip install -r r.txt;"\nP="python \\\n t.py"\nsrun bash -c "$I $P"\n',
    ),
    "its failure": (
        "status-lost-at-end",
        "ends with the status of 'python'",
        _NODES + 'I="cd /a; pip install -r r.txt;"\nP="python \\\n t.py"\nsrun bash -c "$I $P"\n',
    ),
    "ranks of as many nodes as there are": (
        "srun-survivors",
        "how many tasks sbatch is asked for",
        _GPU.replace("--nodes=1", "--ntasks-per-node=1")
        + 'L="accelerate launch --main_process_ip $h --num_machines $SLURM_NNODES"\nsrun bash -c "cd /a; $L t.py"\n',
    ),
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
    "results that are copied": (
        "results-removed",
        _OWN.format("./solve /tmp/$SLURM_JOB_ID\ncp -r /tmp/$SLURM_JOB_ID out\n"),
    ),
    "a folder of input": (
        "results-removed",
        _OWN.format("cp -r d /tmp/$SLURM_JOB_ID\n./solve /tmp/$SLURM_JOB_ID\n"),
    ),
    "a folder for temporary files": (
        "results-removed",
        _OWN.format("sort --tmpdir /tmp/$SLURM_JOB_ID a\n./s --tmp /tmp/$SLURM_JOB_ID\n"),
    ),
    "work that is told where": ("results-on-node-disk", _HEAD + "cd $SLURM_TMPDIR\npython a.py --out /project/out\n"),
    "a short job with a copy": (
        "results-on-node-disk",
        _HEAD + "cd $SLURM_TMPDIR\npython a.py\ncp -r out ~/out\n",
    ),
    "processes with threads": (
        "one-process-many-tasks",
        _HEAD + "#SBATCH --ntasks-per-node=8\nexport OMP_NUM_THREADS=4\nmpirun -np 2 ./solve\n",
    ),
    "a manager that spawns": ("one-process-many-tasks", _HEAD + "#SBATCH --ntasks=8\nmpirun -np 1 Rscript a.r\n"),
    "a script for the tasks": (
        "one-process-many-tasks",
        _HEAD + "#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=1\n./run.sh\n",
    ),
    "Ray's own CPUs": ("ray-counts-differ", _HEAD + "ray start --head --num-cpus 4 --num-gpus 0\npython t.py\n"),
    "a folder that is made": (
        "work-elsewhere",
        _HEAD + "for d in a b; do\n  mkdir $d\n  cd $d\n  somd2 x.bss\n  cd ..\ndone\n",
    ),
    "something missing that is made": (
        "check-goes-on",
        _HEAD + "if [ ! -d $P ]; then\n  echo $P not found, creating it\nfi\npython do.py\n",
    ),
    "work in the other branch": (
        "check-goes-on",
        _HEAD + "if [ ! -d $P ]; then\n  echo $P not found\nelse\n  python do.py\nfi\n",
    ),
    "an installation that is asked": (
        "status-lost-at-end",
        _NODES + 'I="pip install a &&"\nsrun bash -c "$I python t.py"\n',
    ),
    "a build that is off": ("work-switched-off", _GPU + "#python setup.py install\nhostname\n"),
}


@pytest.mark.parametrize("name", _RIGHT)
def test_what_is_right_is_not_blamed(name: str) -> None:
    rule, text = _RIGHT[name]
    assert _messages(text, rule) == []
