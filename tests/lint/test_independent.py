"""What two readers who had not written the rules found wrong or missed, in short scripts of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lint import test_certain
from muster_lint.values import LintFinding

_HEAD = "#!/bin/bash\n#SBATCH --time=01:00:00\n"
_ONE = _HEAD + "#SBATCH --nodes=1\n"
_TWO = _HEAD + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"
_NODES = _HEAD + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
_PORT_29500 = "export MASTER_PORT=29500\nsrun -K python t.py\n"
_GLOB = "if true; then\n    FILES=(a/!(*_2x).yaml)\nfi\n"
_ONE_TASK = _ONE + "#SBATCH --ntasks=1\n#SBATCH --ntasks-per-node=4\n"
_CPUS = _TWO + "#SBATCH --cpus-per-task=8\n"
_GUESS = "export MASTER_ADDR=$(hostname -I)\nexport MASTER_PORT=29500\nsrun -K python t.py\n"
_OWN = "export N=8\nsrun -K bash -c '{}torchrun --standalone --nproc-per-node=$N t.py'\n"
_HET = _NODES + "#SBATCH hetjob\n#SBATCH --nodes=1\n"
_EIGHT = _ONE + "#SBATCH --gres=gpu:4\ntorchrun --standalone --nproc-per-node=8 t.py\n"
_AGENTS = _TWO + "srun -K torchrun --rdzv-backend=c10d --rdzv-endpoint=$h:1 --nproc-per-node=4 t.py\n"
_FOUR = _ONE + "#SBATCH --gres=gpu:4\n"
_FOLDS = "for g in 0 2; do torchrun --nproc-per-node=2 t.py $g &\ndone\nwait\n"
_USR1 = _ONE + "#SBATCH --signal=B:USR1@60\n"
_LOCAL = "srun -K bash -c 'torchrun {} --rdzv-endpoint=localhost:0 t.py $SLURM_NODEID'\n"
_BRANCH = _ONE + 'if [ -z "$SLURM_GPUS" ]; then\n  {}\nelse\n  {}\nfi\n'
_DEFAULT = "N=${SLURM_NTASKS:-8}\nmpirun -np $N python t.py\n"
_COPY = _ONE + "rsync -a d /tmp/d/\n{}python t.py /tmp/d\n"
_PER_TASK = "#SBATCH --gpus-per-task=1\n#SBATCH --gpus"
_NUMBERED = "srun -K bash -c 'torchrun --nnodes=2 --nproc-per-node=4 t.py $SLURM_PROCID'\n"
_ONE_EACH = "#SBATCH --ntasks-per-node=1\n"
_EARLY = 'srun -K bash -c "accelerate launch {} --num_machines 2 --machine_rank $SLURM_PROCID t.py"\n'


def _named(text: str, rule: str) -> LintFinding | None:
    return next((finding for finding in test_certain._findings_of(text) if finding.rule == rule), None)


_HERE = "export MASTER_ADDR=localhost\n"
_ONE_GPU = _ONE + "#SBATCH --gres=gpu:1\n"
_BRANCHED = _ONE_GPU + "X=A\nif {1}; then\n  {0}torchrun --nproc-per-node=2 t.py\nfi\n"
_FUNCTION = _ONE_GPU + "f() {\n  torchrun --nproc-per-node=2 t.py\n}\n"
_RIGHT = {
    "a branch that is dead": ("more-ranks-than-gpus", _BRANCHED.format("", '[ "$X" = "B" ]')),
    "an else that is dead": (
        "more-ranks-than-gpus",
        _BRANCHED.format("", '[ "$X" = "A" ]; then\ndate\nelse').replace("else; then", "else"),
    ),
    "what stands behind exit": ("more-ranks-than-gpus", _ONE_GPU + "exit\ntorchrun --nproc-per-node=2 t.py\n"),
    "a late directive of a retired script": ("directive-after-command", "exit\n#SBATCH -G 1\ndate\n"),
    "patterns of extglob": ("not-bash", _ONE + "shopt -s nullglob extglob\n" + _GLOB),
    "a variable that its line asks for": (
        "slurm-variable-unset",
        _ONE + '[[ -n "${SLURM_CPUS_PER_TASK:-}" ]] && EXTRA+=("-j=$SLURM_CPUS_PER_TASK")\ndate\n',
    ),
    "a variable that its branch asks for": (
        "slurm-variable-unset",
        _ONE + 'if [ -n "$SLURM_GPUS" ]; then\n  python t.py $SLURM_GPUS\nfi\n',
    ),
    "a port on whole nodes": (
        "port-fixed",
        _HEAD + "#SBATCH -N2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-task=1\n" + _PORT_29500,
    ),
    "tasks without GPUs that only lie on several nodes": (
        "srun-survivors",
        _HEAD + "#SBATCH --job-name=run_multi_node\n#SBATCH --ntasks=8\nsrun python one.py\n",
    ),
    "a file beside the script, guarded": (
        "file-beside-script",
        _ONE + 'if [ -f "$(dirname "$0")/a.sh" ]; then\n  source "$(dirname "$0")/a.sh"\nfi\ndate\n',
    ),
    "a file beside the script, and another choice": (
        "file-beside-script",
        _ONE + 'HERE=$(dirname "$0")\n[ -z "$X" ] || HERE=$SLURM_SUBMIT_DIR\nsource "$HERE/a.sh"\n',
    ),
    "the folder of the script, asked for and not used": (
        "file-beside-script",
        _ONE + 'HERE=$(cd "$(dirname "$0")"; pwd)\necho "$HERE"\n',
    ),
    "a script that submits itself": ("file-beside-script", _ONE + 'cd "$(dirname "$0")"\nsbatch job2.sh\n'),
    "a script for no queue": ("file-beside-script", '#!/bin/bash\nsrun python "$(dirname "$0")/t.py"\n'),
    "the folder of the script in an echo": ("file-beside-script", _ONE + 'echo "$(dirname "$0")/a.sh"\ndate\n'),
    "a case of each task": (
        "rank-in-batch-shell",
        _TWO + "srun -K bash -c '\ncase $SLURM_PROCID in\n0) date ;;\n1) hostname ;;\nesac'\n",
    ),
    "a case in a function": (
        "rank-in-batch-shell",
        _TWO
        + "f() {\n case $SLURM_PROCID in\n 0) date ;;\n 1) hostname ;;\n esac\n}\nexport -f f\nsrun -K bash -c f\n",
    ),
    "one case": ("rank-in-batch-shell", _TWO + "case $SLURM_PROCID in\n0) date ;;\nesac\nsrun -K hostname\n"),
    "a script that runs itself in its tasks": (
        "rank-in-batch-shell",
        _TWO + 'if [ $SLURM_PROCID -gt 0 ]; then\n  date\nfi\n[ -n "$SLURM_STEP_ID" ] || srun -K bash "$0"\n',
    ),
    "a test of the first task": (
        "rank-in-batch-shell",
        _TWO + "if [ $SLURM_PROCID -eq 0 ]; then\n  date\nfi\nsrun -K hostname\n",
    ),
    "a case of a number of one's own": (
        "rank-in-batch-shell",
        _TWO + "SLURM_PROCID=1\ncase $SLURM_PROCID in\n0) date ;;\n1) hostname ;;\nesac\nsrun -K hostname\n",
    ),
    "a case in a job of one task": (
        "rank-in-batch-shell",
        _ONE + "case $SLURM_PROCID in\n0) date ;;\n1) hostname ;;\nesac\nsrun -K hostname\n",
    ),
    "tasks with a number each, too early": (
        "same-work-in-every-task",
        _ONE + "#SBATCH -n8\nsrun python one.py --part $SLURM_PROCID\n",
    ),
    "tasks with GPUs": ("same-work-in-every-task", _ONE + "#SBATCH -n8\n#SBATCH --gres=gpu:8\nsrun python one.py\n"),
    "more ranks than GPUs": ("one-cpu", _TWO.replace("tasks-per-node=4", "tasks-per-node=8") + "srun -K python t.py\n"),
    "torchpack on several nodes": ("gpus-idle", _NODES + "torchpack dist-run -np 2 python t.py\n"),
    "conda under set +u": ("conda-under-nounset", _ONE + "set -eu\nset +u\nconda activate a\nset -u\ndate\n"),
    "clear whose failure is excused": ("terminal-in-batch", _ONE + "set -e\nclear || true\ndate\n"),
    "clear where errors end nothing": ("terminal-in-batch", _ONE + "clear\ndate\n"),
    "tasks with a number each": (
        "same-work-in-every-task",
        _ONE + "#SBATCH -n8\nsrun bash -c 'python one.py --part $SLURM_PROCID'\n",
    ),
    "tasks of MPI": ("same-work-in-every-task", _ONE + "#SBATCH -n8\nmodule load openmpi\nsrun python one.py\n"),
    "torchpack on all GPUs": ("gpus-idle", _ONE + "#SBATCH --gres=gpu:2\ntorchpack dist-run -np 2 python t.py\n"),
    "a module that serves": ("srun-survivors", _TWO + "export NCCL_DEBUG=WARN\nsrun python -m app.server\n"),
    "a module that is split": ("srun-survivors", _TWO + "srun python -m app.train --part $SLURM_PROCID\n"),
    "as many tasks of a node as tasks": ("tasks-of-node-unused", _ONE_TASK.replace("=4", "=1") + "srun -K a\n"),
    "one task, and no step": ("tasks-of-node-unused", _ONE_TASK + "python t.py\n"),
    "a step with a size of its own": ("tasks-of-node-unused", _ONE_TASK + "srun -K -n 4 --overcommit a\n"),
    "a step of options that nobody knows": ("tasks-of-node-unused", _ONE_TASK + "srun $OPTIONS -K a\n"),
    "a step in the place of its output": ("tasks-of-node-unused", _ONE_TASK + "H=$(srun hostname)\n"),
    "tasks of a node by a variable": ("tasks-of-node-unused", _ONE + "srun -n 1 --ntasks-per-node=$N a\n"),
    "a bound program by which": ("gpu-bind-hides", _TWO + "srun --gpu-bind=single:1 -K $(which lmp)\n"),
    "a whole node by its feature": ("one-cpu", _ONE + "#SBATCH --gpus-per-node=4\n#SBATCH -C gpu\npython t.py\n"),
    "a script beside one GPU": ("one-cpu", _ONE + "#SBATCH --gres=gpu:1\nbash t.sh\n"),
    "processes with CPUs by the step": ("one-cpu", _TWO + "srun -K --cpus-per-task=4 python t.py\n"),
    "a number that the task sets itself": ("more-ranks-than-gpus", _NODES + _OWN.format("N=$(nproc);")),
    "a task's loop": ("more-ranks-than-gpus", _NODES + _OWN.format("for N in 1 2; do ").replace("py", "py; done")),
    "a number that the task's file sets": ("more-ranks-than-gpus", _NODES + _OWN.format(". ./a.sh; ")),
    "a number for nobody": ("more-ranks-than-gpus", _NODES + _OWN.format("").replace("-K", "--export=NONE,N=4")),
    "the word between two headers": ("directive-without-option", _HET + "date\n"),
    "the nodes of the second header": ("directive-twice", _HET + "date\n"),
    "nodes of another header": ("nodes-disagree", _HET + "srun --het-group=0 -K torchrun --nnodes=2 t.py\n"),
    "the hosts of a header": ("slurm-variable-misspelt", _HET + "srun -K a $SLURM_JOB_NODELIST_HET_GROUP_0\n"),
    "folds beside each other": ("gpus-idle", _FOUR + _FOLDS),
    "a signal that ends no shell": ("signal-kills-script", _ONE + "#SBATCH --signal=B:URG@60\nsrun python t.py\n"),
    "a signal that the script ignores": ("trap-waits-for-srun", _USR1 + "trap '' USR1\nsrun python t.py\n"),
    "a signal of steps, ignored": ("signal-to-steps-only", _USR1.replace("B:", "") + "trap '' USR1\nsrun a\n"),
    "a place of each node's own": ("address-is-loopback", _NODES + _LOCAL.format("")),
    "two kinds of GPUs": ("more-ranks-than-gpus", _EIGHT.replace("gpu:4", "gpu:a:4,gpu:b:4")),
    "an environment, then scripts": ("one-process-many-gpus", _FOUR + "python -m pip install -e .\n./run.sh\n"),
    "tasks of each GPU": ("one-process-many-gpus", _FOUR + "#SBATCH --ntasks-per-gpu=2\nsrun python t.py\n"),
    "the CPUs of tasks of each GPU": ("one-cpu", _FOUR + "#SBATCH --ntasks-per-gpu=2\nsrun python t.py\n"),
    "the nodes of a step": ("size-told-differs", _TWO + "srun -N1 -n4 python t.py --num_nodes 1\n"),
    "nodes that a variable gives": ("size-told-differs", _TWO + "srun -N$A python t.py --num_nodes 1\n"),
    "a value that is given here": ("slurm-variable-unset", _ONE + ': "${SLURM_GPUS:=8}"\npython t.py $SLURM_GPUS\n'),
    "the other branch": ("slurm-variable-unset", _BRANCH.format("date", "python t.py $SLURM_GPUS")),
    "a default that fits": ("slurm-variable-unset", _NODES.replace("#SBATCH --ntasks-per-node=1\n", "") + _DEFAULT),
    "failures in files": ("wait-forgets-status", _ONE + "python t.py || touch failed &\nwait\n"),
    "a question behind the wait": ("wait-forgets-status", _ONE + "python t.py &\nwait\nls a || exit 1\n"),
    "processes by the environment": ("one-process-many-gpus", _FOUR + "export PET_NPROC_PER_NODE=4\ntorchrun t.py\n"),
    "a port by the environment": ("variable-unread", _ONE + "export MASTER_PORT=1 PET_MASTER_PORT=1\ntorchrun t.py\n"),
    "help": ("exit-without-status", _ONE + "if [ $1 = -h ]; then\n  echo usage: a\n  exit 0\nfi\n"),
    "good news": ("exit-without-status", _ONE + "if [ $1 = a ]; then\n  echo nothing is missing\n  exit 0\nfi\n"),
    "a copy that is looked for": ("copy-may-fail", _COPY.format("test -f /tmp/d/ok || exit 1\n")),
    "a list of an archive": ("same-work-in-every-task", _ONE + "srun -n 4 tar tf data.tar a\n"),
    "a pipe's status by shopt": ("status-lost-in-pipe", _ONE + "shopt -so pipefail\npython t.py | tee a\n"),
    "the folder above": ("cd-may-fail", _ONE + "cd ..\nrm -rf old*\n"),
    "a script for sh": ("bash-under-sh", "#!/bin/sh\n#SBATCH -N 1\n. ./env.sh\na=1\npython t.py\n"),
    "arrays of bash": ("bash-under-sh", "#!/bin/bash\n#SBATCH -N 1\na=(1 2)\nsource env.sh\npython t.py\n"),
    "a build that is asked": ("build-may-fail", _ONE + "make && echo built || exit 1\nsrun ./train\n"),
    "a build alone": ("build-may-fail", _ONE + "make -j 4\nsrun hostname\n"),
    "a build that cleans": ("build-may-fail", _ONE + "make clean\nsrun ./train\n"),
    "a build of an option": ("build-may-fail", _ONE + "python3 t.py --make x\n./a.out\n"),
    "a bind that is exported": ("not-exported", _ONE + "export SINGULARITY_BIND=/a\nsingularity exec i.sif a\n"),
    "a bind that is used": ("not-exported", _ONE + "APPTAINER_BIND=/a\napptainer exec -B $APPTAINER_BIND i.sif a\n"),
    "an image's place": ("not-exported", _ONE + "SINGULARITY_IMAGE=/i\necho $SINGULARITY_IMAGE\nsrun a\n"),
    "a size that is filled in": ("directive-value", _ONE + "#SBATCH --ntasks=##NUMTASKS##\ndate\n"),
    "an engine's place": ("not-exported", _ONE + "SINGULARITY=/opt/s\n$SINGULARITY exec i.sif a\n"),
    "an empty account": ("directive-value", _ONE + "#SBATCH --account=\n#SBATCH --mail-user=\ndate\n"),
    "a failure that ends badly": (
        "status-lost-at-end",
        _ONE + "python t.py\nif [ $? -ne 0 ]; then\n  rm -rf out\n  exit 1\nfi\n",
    ),
    "a failure that is said": (
        "status-lost-at-end",
        _ONE + "python t.py\nif [ $? -ne 0 ]; then\n  echo failed\n  false\nfi\n",
    ),
    "a failure of something else": (
        "status-lost-at-end",
        _ONE + "python t.py\ncp a b\nif [ $? -ne 0 ]; then\n  echo no copy\nfi\n",
    ),
    "a search that ends nothing": ("kill-by-name", _ONE + "ps aux | grep python | xargs echo\npython t.py\n"),
    "an array of one, in brackets": ("output-of-array", _ONE + "#SBATCH --array=[1]\n#SBATCH -o a\npython t.py\n"),
    "an array from one to one": ("output-of-array", _ONE + "#SBATCH --array=3-3%1\n#SBATCH -o a\npython t.py\n"),
    "the id of a task and a step": ("output-of-array", _ONE + "#SBATCH --array=1-3\n#SBATCH -o %J.out\npython t.py\n"),
    "an array of one": ("output-of-array", _ONE + "#SBATCH --array=1\n#SBATCH --output=a.out\npython t.py\n"),
    "the nodes of a graph": ("size-told-differs", _NODES + "srun -K python graph.py --num_nodes 1000\n"),
    "folds of a function": ("gpus-idle", _FOUR + "f() { torchrun --nproc-per-node=2 t.py; }\nf &\nf &\nwait\n"),
    "a trap of the script's own signal": ("signal-to-steps-only", _USR1 + "trap a USR1\nsrun a\n"),
    "the CPUs of another header": ("one-cpu", _ONE + "#SBATCH --gres=gpu:1\n#SBATCH hetjob\npython t.py\n"),
    "the GPUs of another header": (
        "gpus-not-asked-for",
        _ONE + "#SBATCH hetjob\n#SBATCH --gres=gpu:1\nnvidia-smi\npython t.py\n",
    ),
    "a header with backslashes": ("directive-without-option", _HEAD + "#SBATCH -N 1 \\\n#SBATCH -n 1 \\\ndate\n"),
    "an option of EAR": ("directive-unknown", _ONE + "#SBATCH --ear-verbose=1\ndate\n"),
    "a program with an address of its own": ("one-process-many-gpus", _FOUR + "python t.py --dist-url tcp://h:$P\n"),
    "an environment made first": ("status-lost-at-end", _ONE + "python3 -m venv ~/e\n~/e/bin/python t.py\n"),
    "ranks that mpi4py ends": ("srun-survivors", _TWO + "export NCCL_DEBUG=WARN\nsrun python -m mpi4py train.py\n"),
    "an MPI program, then its plot": ("one-process-many-gpus", _FOUR + "mpirun lmp -in a\npython plot.py\n"),
    "a folder made before": ("cd-may-fail", _ONE + "mkdir -p $D/run/\ncd $D/run\nrm -rf old\n"),
    "a folder made here": ("cd-may-fail", _ONE + "mkdir -p ./out\ncd out\nrm -rf old\n"),
    "a folder made here, behind --": ("cd-may-fail", _ONE + "mkdir out\ncd -- ./out\nrm -rf old\n"),
    "the folder of before": ("cd-may-fail", _ONE + "cd -\nrm -rf old\n"),
    "the batch host left out": ("hostname-too-early", _TWO + "srun -x $(hostname) python t.py\n"),
    "a module of another branch": (
        "modules-after-environment",
        _ONE + "if [ $A ]; then\n  source e/bin/activate\nelse\n  module load python\nfi\npython t.py\n",
    ),
    "a module that one branch loads": (
        "modules-after-environment",
        _ONE + "source e/bin/activate\nif [ $A ]; then\n  module load python\nfi\npython t.py\n",
    ),
    "a module loaded again": (
        "modules-after-environment",
        _ONE + "module load python\nsource e/bin/activate\nmodule load python\npython t.py\n",
    ),
    "two names of a job": ("directive-twice", _ONE + "#SBATCH -J a\n#SBATCH -J b\ndate\n"),
    "a place for a key": ("secret-in-script", _ONE + "export HF_TOKEN='{6. the token of you}'\npython t.py\n"),
    "a port of another branch": (
        "variable-unread",
        _TWO + "if [ $A ]; then\n  srun torchrun t.py\nelse\n  export MASTER_PORT=1234\n  srun python t.py\nfi\n",
    ),
    "no GPU for each task": ("gpus-per-task", _TWO + "#SBATCH --gpus-per-task=0\nsrun -K python t.py\n"),
    "one GPU, bound": (
        "gpu-bind-hides",
        _HEAD + "#SBATCH --gpus=1\n#SBATCH --gpu-bind=single:1\nsrun python t.py\n",
    ),
    "nodes of a graph": ("size-told-differs", _ONE + "#SBATCH --gres=gpu:1\npython t.py --num_nodes 20\n"),
    "devices of a radio": ("size-told-differs", _FOUR + "python t.py --devices 50\n"),
    "nodes that sbatch takes away": (
        "standalone-on-nodes",
        _HEAD + "#SBATCH -N 4 -n 1 --gres=gpu:4\nsrun -K torchrun --nproc-per-node=4 t.py\n",
    ),
    "as many tasks as nodes": ("tasks-of-node-unused", _HEAD + "#SBATCH -N 4 -n 4\nsrun -K a\n"),
    "a port that nobody reads": ("port-fixed", _ONE + "#SBATCH --gres=gpu:1\nMASTER_PORT=1234\npython t.py\n"),
    "a queue of the site": ("slurm-variable-misspelt", _ONE + "sinfo -p $SLURM_QUEUE\n"),
    "a size that an agent in the task sets": (
        "not-exported",
        _TWO + "WORLD_SIZE=8\nL='torchrun t.py'\nsrun -K bash -c \"$L\"\n",
    ),
    "a switch with its reason": (
        "debug-switch-left-on",
        _ONE + "# do not remove: it hangs without\nexport CUDA_LAUNCH_BLOCKING=1\npython t.py\n",
    ),
}


@pytest.mark.parametrize("name", _RIGHT)
def test_what_is_right_is_not_blamed(name: str) -> None:
    rule, text = _RIGHT[name]
    assert _named(text, rule) is None


_WRONG = {
    "a task's GPUs": (
        "style",
        "slurm-variable-unset",
        _ONE + "#SBATCH --gpus-per-task=1\ndate $SLURM_GPUS_PER_TASK\n",
    ),
    "the same GPUs twice": (
        "style",
        "gpus-of-node-twice",
        _ONE + "#SBATCH --gres=gpu:a100:2\n#SBATCH --gpus-per-node=a100:2\n",
    ),
    "a build": ("fragile", "build-may-fail", _ONE + "module load gcc\nmake -j8 all\nmpirun ./train\n"),
    "a compiler": ("fragile", "build-may-fail", _ONE + "nvcc -o a.out a.cu\n./a.out\n"),
    "a bind that no container sees": (
        "fragile",
        "not-exported",
        _ONE + "SINGULARITY_BIND=/a:/a\necho $SINGULARITY_BIND\nsingularity exec i.sif a\n",
    ),
    "no number of tasks": ("breaks", "directive-value", _ONE + "#SBATCH --ntasks-per-node=\ndate\n"),
    "no time": ("breaks", "directive-value", "#!/bin/bash\n#SBATCH -N 1\n#SBATCH --time=\ndate\n"),
    "a failure that is handled": (
        "fragile",
        "status-lost-at-end",
        _ONE + "python t.py\nif [ $? -ne 0 ]; then\n  echo failed\n  rm -rf out\nfi\n",
    ),
    "processes that are searched": (
        "fragile",
        "kill-by-name",
        _ONE + "ps aux | grep a | awk '{print $2}' | xargs kill -9\npython t.py\n",
    ),
    "pip in a container": (
        "fragile",
        "install-in-job",
        _ONE + "apptainer exec i.sif bash -c 'pip install x && python t.py'\n",
    ),
    "threads for the GPUs of the node": (
        "slow",
        "threads-too-many",
        _FOUR + "#SBATCH --cpus-per-task=8\nexport OMP_NUM_THREADS=12\n"
        "torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py\n",
    ),
    "nodes of a trainer": ("fragile", "size-told-differs", _ONE + "srun -K python t.py trainer.num_nodes=2\n"),
    "the same GPUs twice, one": (
        "style",
        "gpus-of-node-twice",
        _ONE + "#SBATCH --gres=gpu\n#SBATCH --gpus-per-node=1\n",
    ),
    "the same GPUs twice, in a list": (
        "style",
        "gpus-of-node-twice",
        _ONE + "#SBATCH --gres=nvme:1,gpu:2\n#SBATCH --gpus-per-node=2\n",
    ),
    "a folder made elsewhere": ("fragile", "cd-may-fail", _ONE + "cd /a\nmkdir out\ncd out\nrm -rf *\ndate\n"),
    "settings needed": (
        "slow",
        "debug-switch-left-on",
        _ONE + "# needed for all\nexport CUDA_LAUNCH_BLOCKING=1\ndate\n",
    ),
    "a variable in the name of a log": ("fragile", "directive-expands", _ONE + "#SBATCH -o log/$USER.%j\ndate\n"),
    "a variable in the folder of a log": ("fragile", "directive-expands", _ONE + "#SBATCH -e /a/$USER/%j\ndate\n"),
    "a variable in a folder to be": ("fragile", "directive-expands", _ONE + "#SBATCH -D $USER\ndate\n"),
    "fewer tasks than nodes": ("fragile", "tasks-of-node-unused", _HEAD + "#SBATCH -N 4 -n 1\nsrun -K a\n"),
    "blanks behind export": ("breaks", "assignment-with-blanks", _ONE + "export A = 1\ndate $A\n"),
    "blanks that nobody reads": ("fragile", "assignment-with-blanks", _ONE + "A = 1\ndate\n"),
    "blanks that end the script": ("breaks", "assignment-with-blanks", _ONE + "set -e\nA = 1\ndate\n"),
    "an account of a variable": ("fragile", "directive-expands", _ONE + "#SBATCH -A $USER\ndate\n"),
    "a folder's old option": ("breaks", "directive-unknown", _ONE + "#SBATCH --workdir=a\ndate\n"),
    "an option of a plugin": ("fragile", "directive-unknown", _ONE + "#SBATCH --uenv-file=a\ndate\n"),
    "a word that no option is": ("breaks", "directive-unknown", _ONE + "#SBATCH --gres:gpu\ndate\n"),
    "parked directives": ("fragile", "directive-after-command", _ONE + "date\n#SBATCH --gres=gpu:1\n"),
    "a late account": ("fragile", "directive-after-command", _ONE + "date\n#SBATCH -A a\ndate\n"),
    "a misspelt account": ("fragile", "directive-misspelt", _ONE + "#BATCH -A a\ndate\n"),
    "a server of the job": ("fragile", "background-without-wait", _TWO + "srun start-server.sh &\n"),
    "a place that the program may set": ("fragile", "address-is-loopback", _NODES + _HERE + "srun -K python t.py\n"),
    "ranks on GPUs named": ("fragile", "more-ranks-than-gpus", _BRANCHED.format("CUDA_VISIBLE_DEVICES=0,1 ", ":")),
    "ranks of deepspeed": ("fragile", "more-ranks-than-gpus", _ONE_GPU + "deepspeed --num_gpus=4 t.py\n"),
    "a branch that runs": ("breaks", "more-ranks-than-gpus", _BRANCHED.format("", '[ "$X" = "A" ]')),
    "a branch of a file": ("fragile", "more-ranks-than-gpus", _BRANCHED.format("", "[ -d a ]")),
    "a branch of the caller": ("fragile", "more-ranks-than-gpus", _BRANCHED.format("", '[ "$1" = "A" ]')),
    "a function that nobody calls": ("fragile", "more-ranks-than-gpus", _FUNCTION),
    "a function that is called": ("breaks", "more-ranks-than-gpus", _FUNCTION + "f\n"),
    "a function of a branch": ("fragile", "more-ranks-than-gpus", _FUNCTION + "[[ -d a ]] && f\n"),
    "a case": ("fragile", "more-ranks-than-gpus", _ONE_GPU + "case $1 in a) torchrun --nproc-per-node=2 t.py;; esac\n"),
    "a while": ("breaks", "more-ranks-than-gpus", _ONE_GPU + "while true; do torchrun --nproc-per-node=2 a; done\n"),
    "a TERM for the steps": (
        "fragile",
        "signal-to-steps-only",
        _USR1.replace("B:USR1", "TERM") + "trap a TERM\nsrun python t.py\n",
    ),
    "two steps and a trap": ("fragile", "trap-waits-for-srun", _USR1 + "trap a USR1\n" + "srun python t.py\n" * 2),
    "a port for a URL": (
        "fragile",
        "port-fixed",
        _ONE + "#SBATCH --gres=gpu:1\nMASTER_PORT=1234\npython t.py --url tcp://h:$MASTER_PORT\n",
    ),
    "a port exported later": (
        "fragile",
        "port-fixed",
        _ONE + "#SBATCH --gres=gpu:1\nMASTER_PORT=1234\nexport MASTER_ADDR MASTER_PORT\npython t.py\n",
    ),
    "a directive behind a blank": ("style", "directive-misspelt", _ONE + "# SBATCH --gres=gpu:4\npython t.py\n"),
    "a bound python": ("fragile", "gpu-bind-hides", _TWO + "srun --gpu-bind=single:1 -K $(which python) t.py\n"),
    "an installer by which": ("fragile", "install-in-job", _ONE + "$(which pip) install torch\npython t.py\n"),
    "an installer in a folder of a variable": (
        "fragile",
        "install-in-job",
        _ONE + "$E/bin/pip install t\npython t.py\n",
    ),
    "a program by which, and echo": ("fragile", "status-lost-at-end", _ONE + "$(which lmp) -in a\necho done\n"),
    "python by which behind options that nobody knows": (
        "fragile",
        "status-lost-at-end",
        _TWO + "srun $OPTIONS $(which python) t.py\npython b.py\n",
    ),
    "one task, and four of each node": ("fragile", "tasks-of-node-unused", _ONE_TASK + "srun -K python t.py\n"),
    "a step of one task, and four of each node": (
        "fragile",
        "tasks-of-node-unused",
        _ONE + "srun -n 1 --ntasks-per-node=4 python t.py\n",
    ),
    "a step of python by which": ("style", "srun-cpus-per-task", _CPUS + "srun -K $(which python) train.py\n"),
    "a python by command -v": ("fragile", "srun-survivors", _TWO + 'srun "$(command -v python3)" train.py\n'),
    "a step of python by a variable": ("fragile", "srun-survivors", _TWO + "P=`type -p python`\nsrun $P train.py\n"),
    "torchrun by which, behind python": (
        "breaks",
        "agents-on-every-task",
        _TWO + "srun -K python $(which torchrun) --nproc_per_node=4 t.py\n",
    ),
    "python by which, and echo": ("fragile", "status-lost-at-end", _ONE + "$(which python) t.py\necho done\n"),
    "a module of torchrun, then another": (
        "fragile",
        "status-lost-at-end",
        _ONE + "torchrun --nproc_per_node=2 -m app.evaluate --n 1\npython -m app.merge\n",
    ),
    "a module that trains": ("fragile", "srun-survivors", _TWO + "srun python -m app.pretrain --size 1\n"),
    "one CPU on nodes whose feature begins with gpu": (
        "style",
        "one-cpu",
        _ONE + "#SBATCH --gpus-per-node=4\n#SBATCH --constraint=gpup100\npython t.py\n",
    ),
    "all addresses of a host": ("fragile", "address-by-ip-guess", _NODES + _GUESS),
    "an address that hostname guesses": ("style", "address-by-ip-guess", _NODES + _GUESS.replace("-I", "-i")),
    "all addresses of a host, for one node": ("style", "address-by-ip-guess", _ONE + _GUESS),
    "an address that is cut from all of a host": (
        "style",
        "address-by-ip-guess",
        _NODES + _GUESS.replace("-I)", "-I | awk '{print $1}')"),
    ),
    "an address that is cut later": (
        "style",
        "address-by-ip-guess",
        _NODES + _GUESS.replace("srun", "MASTER_ADDR=${MASTER_ADDR%% *}\nsrun"),
    ),
    "patterns before extglob is on": ("breaks", "not-bash", _ONE + _GLOB + "shopt -s extglob\n"),
    "extglob in a branch": ("breaks", "not-bash", _ONE + "if true; then\n  shopt -s extglob\nfi\n" + _GLOB),
    "an open branch behind extglob": ("breaks", "not-bash", _ONE + "shopt -s extglob\nif true; then\n  date\n"),
    "a variable that its line uses after another": (
        "style",
        "slurm-variable-unset",
        _ONE + '[[ -n "${OTHER:-}" ]] && python t.py $SLURM_GPUS\n',
    ),
    "a port beside which four GPUs of a node are free": (
        "style",
        "port-fixed",
        _HEAD + "#SBATCH -N2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-task=1\n" + _PORT_29500,
    ),
    "tasks with GPUs on several nodes": (
        "fragile",
        "srun-survivors",
        _HEAD + "#SBATCH --job-name=run_multi_node\n#SBATCH --ntasks=8\n#SBATCH --gres=gpu:4\nsrun python one.py\n",
    ),
    "a rank beside c10d": ("fragile", "task-variable-too-early", _NODES + _EARLY.format("--rdzv_backend c10d")),
    "a rank without c10d": ("breaks", "task-variable-too-early", _NODES + _EARLY.format("--multi_gpu")),
    "a rank that c10d does not read, and one that the program does": (
        "breaks",
        "task-variable-too-early",
        _NODES + _EARLY.format("--rdzv_backend c10d").replace("t.py", "t.py --rank $SLURM_PROCID"),
    ),
    "a program beside the script, by a variable of a variable": (
        "breaks",
        "file-beside-script",
        _ONE + 'HERE="$(cd "$(dirname "$0")" && pwd)"\nTOP="$HERE/.."\npython "$TOP/t.py"\n',
    ),
    "a file beside the script, and the script goes on": (
        "fragile",
        "file-beside-script",
        _ONE + "source ${BASH_SOURCE%/*}/a.sh\ndate\n",
    ),
    "the folder of the script": ("fragile", "file-beside-script", _ONE + 'cd "$(dirname "$0")"\npython t.py\n'),
    "a test of another task": (
        "fragile",
        "rank-in-batch-shell",
        _TWO + 'if [[ "$SLURM_NODEID" != 0 ]]; then\n  date\nfi\nsrun -K hostname\n',
    ),
    "torchpack with one": ("slow", "gpus-idle", _ONE + "#SBATCH --gres=gpu:2\ntorchpack dist-run -np 1 python t.py\n"),
    "several processes with one CPU each": ("style", "one-cpu", _TWO + "srun -K python t.py\n"),
    "a switch that RCCL does not read": ("fragile", "variable-unread", _TWO + "export RCCL_DEBUG=INFO\nsrun -K a\n"),
    "conda by source": ("fragile", "conda-under-nounset", _ONE + "set -o nounset\nsource activate a\ndate\n"),
    "one size of the step, another of the job": (
        "fragile",
        "same-work-in-every-task",
        _ONE + "#SBATCH -n8\nsrun -n4 python solve.py\n",
    ),
    "a number that reaches the task": ("breaks", "more-ranks-than-gpus", _NODES + _OWN.format("echo $N; ")),
    "a number given to all of the environment": (
        "breaks",
        "more-ranks-than-gpus",
        _NODES + _OWN.format("").replace("-K", "--export=M=1,ALL"),
    ),
    "ranks without GPUs": ("fragile", "more-ranks-than-gpus", _EIGHT.replace("py", "py --backend gloo")),
    "ranks that see no GPU": ("fragile", "more-ranks-than-gpus", _EIGHT.replace("tor", 'CUDA_VISIBLE_DEVICES="" tor')),
    "ranks on GPUs": ("breaks", "more-ranks-than-gpus", _EIGHT.replace("tor", "GLOO_SOCKET_IFNAME=a tor")),
    "ranks on named GPUs": ("breaks", "more-ranks-than-gpus", _EIGHT.replace("tor", 'CUDA_VISIBLE_DEVICES="0,1" tor')),
    "tasks with GPUs each": ("breaks", "agents-on-every-task", _AGENTS.replace("-K", "-K --gpus-per-task=1")),
    "agents of one host each": ("fragile", "agents-on-every-task", _AGENTS.replace("$h:1", "localhost:0")),
    "agents, a rank elsewhere": ("breaks", "agents-on-every-task", _AGENTS + "srun -K bash -c 'echo $SLURM_PROCID'\n"),
    "agents with a rank in their task": (
        "fragile",
        "agents-on-every-task",
        _TWO + "srun -K bash -c 'torchrun --nproc-per-node=4 t.py $SLURM_PROCID'\n",
    ),
    "a value twice in one header": ("fragile", "directive-twice", _HET.replace("#SBATCH h", "#SBATCH -N 3\n#SBATCH h")),
    "folds after each other": ("slow", "gpus-idle", _FOUR + _FOLDS.replace(" &", "")),
    "a trap of a variable": ("fragile", "signal-kills-script", _USR1 + "trap 'a $!' $S\nsrun python t.py\n"),
    "a trap of eval": ("fragile", "signal-kills-script", _USR1 + "eval 'trap a USR1'\nsrun python t.py\n"),
    "a trap of another": ("breaks", "signal-kills-script", _USR1 + 'trap "a $!" TERM\nsrun python t.py\n'),
    "a step before": ("fragile", "trap-waits-for-srun", _USR1 + "trap a USR1\nsrun python b.py\nsrun python t.py &\n"),
    "runs of nodes": ("fragile", "standalone-on-nodes", _NODES + _LOCAL.format("")),
    "a rank of nodes": ("breaks", "standalone-on-nodes", _NODES + _LOCAL.format("--node-rank=0")),
    "a place for two nodes": ("hangs", "address-is-loopback", _NODES + _LOCAL.format("--nnodes=2")),
    "work behind a venv": ("style", "one-process-many-gpus", _FOUR + "python -m venv a\npython t.py\n"),
    "the first branch": ("style", "slurm-variable-unset", _BRANCH.format("python t.py $SLURM_GPUS", "date")),
    "a copy that is not looked for": ("fragile", "copy-may-fail", _COPY.format("test -f /tmp/e/ok || exit 1\n")),
    "an archive by every task": ("fragile", "same-work-in-every-task", _ONE + "srun -n 4 tar xf data.tar a\n"),
    "no such thing": (
        "fragile",
        "exit-without-status",
        _ONE + "if [ ! -e a ]; then\n  echo error: no a\n  exit 0\nfi\n",
    ),
    "usage": ("fragile", "exit-without-status", _ONE + "if [ $# = 0 ]; then\n  echo usage: a\n  exit 0\nfi\n"),
    "a name with two dollars": ("style", "template", _ONE + "D=$${DATA}/a\npython t.py\n"),
    "a mark": ("style", "template", _ONE + "#SBATCH -o ${A}/a\n${SETUP}\n#SBATCH -N1\npython t.py\n"),
    "a late mark": ("breaks", "directive-expands", _ONE + "#SBATCH --mem ${A}\ndate\n${CMD}\n#SBATCH -N2\n"),
    "standalone agents": ("fragile", "agents-on-every-task", _AGENTS.replace("--rdzv-backend=c10d", "--standalone")),
    "GPUs of tasks": ("breaks", "agents-on-every-task", _AGENTS.replace("#SBATCH --gpus", _PER_TASK, 1)),
    "numbered agents of one world": ("breaks", "agents-on-every-task", _TWO + _NUMBERED),
    "a trap behind the work": ("breaks", "trap-waits-for-srun", _USR1 + "trap a USR1\nsrun python t.py\n"),
    "a question of another": ("fragile", "wait-forgets-status", _ONE + "python t.py & date || true\nwait\n"),
    "no tasks by default": (
        "style",
        "slurm-variable-unset",
        _NODES.replace(_ONE_EACH, "") + _DEFAULT.replace("8", "0"),
    ),
}


@pytest.mark.parametrize("name", _WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    severity, rule, text = _WRONG[name]
    finding = _named(text, rule)
    assert finding is not None
    assert finding.severity == severity


def test_what_else_is_found_in_these_cases(golden: Callable[[Path, str], None]) -> None:
    # What the beginnings that the cases share bring with them is not told.
    of_beginnings = {"one-cpu", "port-fixed", "environment-of-submission"}
    lines = []
    for cases in (test_certain._RIGHT, test_certain._DOUBTFUL, test_certain._WRONG, _RIGHT, _WRONG):
        for name, (*_, rule, text) in cases.items():
            found = [
                f"{each.place.line} {each.rule}{'?' * bool(each.unknown)}"
                for each in test_certain._findings_of(text)
                if each.rule not in {rule, *of_beginnings}
            ]
            if found:
                lines.append(f"{rule}, {name}: {', '.join(found)}")
    golden(Path(__file__).parent.parent / "golden/found-besides.txt", "\n".join([*lines, ""]))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--standalone", "2 nodes train alone"),
        ("--standalone --rdzv-endpoint=$h:1", "2 nodes train alone"),
        ("--rdzv-backend=c10d --rdzv-endpoint=$h:1", "do not become one world"),
    ],
)
def test_nodes_that_meet_at_one_place_are_not_said_to_train_alone(option: str, words: str) -> None:
    finding = _named(_NODES + f"srun -K torchrun {option} --nproc-per-node=4 t.py\n", "standalone-on-nodes")
    assert finding is not None
    assert words in finding.message


_QUOTED = """srun -K bash -c "
cd $HOME
python t.py --rank=$SLURM_PROCID --size ${SLURM_NTASKS}
"
"""


@pytest.mark.parametrize(
    ("rule", "name", "body"),
    [
        ("task-variable-too-early", "$SLURM_PROCID", _QUOTED),
        ("slurm-variable-unset", "${SLURM_NTASKS}", _QUOTED),
        ("task-variable-too-early", "$SLURM_PROCID", 'srun -K bash -c "python t.py $SLURM_PROCID\ndate"\n'),
        (
            "task-variable-too-early",
            "$SLURM_PROCID",
            _QUOTED.replace("cd $HOME", "echo \\$SLURM_PROCID $SLURM_PROCIDS"),
        ),
    ],
)
def test_a_variable_in_a_quoted_command_is_shown_where_it_stands(rule: str, name: str, body: str) -> None:
    text = _HEAD + "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n" + body
    finding = _named(text, rule)
    assert finding is not None
    place = finding.place
    assert text.splitlines()[place.line - 1][place.column - 1 : place.end_column - 1] == name
    assert place.line == next(number for number, line in enumerate(text.splitlines(), 1) if "t.py" in line)


def test_a_variable_in_a_word_of_one_line_is_shown_by_its_word() -> None:
    finding = _named(_TWO + 'srun -K bash -c "python t.py $SLURM_PROCID"\n', "task-variable-too-early")
    assert finding is not None
    assert finding.place.column == len("srun -K bash -c ") + 1
