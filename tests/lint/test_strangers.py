"""What two readers who had not seen the rules listed in public scripts of 2026-11-27, in short scripts of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_lint.bash import read_shell
from muster_lint.look import lint_source
from muster_lint.read import source_of
from muster_lint.values import Severity

_HEAD = "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n"
_GPU = _HEAD + "#SBATCH --gres=gpu:1\n"
_OWN = _HEAD + "mkdir /tmp/$SLURM_JOB_ID\n{}rm -rf /tmp/$SLURM_JOB_ID\n"
_LOADS = _GPU.replace("#SBATCH --cpus-per-task=4\n", "")
_MANY = _GPU.replace("gpu:1", "gpu:2")
_NODES = "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
_SRUN = "srun -K torchrun --nproc-per-node=4 "
_LOCAL = "at its own 127.0.0.1"

_FOUND = {
    "a type at one number of GPUs": (
        "gpus-of-node-twice",
        "sbatch refuses a type",
        _HEAD + "#SBATCH --gres=gpu:V100:1\n#SBATCH --gpus-per-node=1\npython t.py\n",
    ),
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
    "loaders on the CPU that nobody asked for": (
        "workers-beyond-cpus",
        "it starts 8 loaders, on one CPU",
        "#!/bin/bash\n#SBATCH --time=60\n#SBATCH --gres=gpu:1\npython t.py data.num_workers=8\n",
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
    "a requeue that empties the log": (
        "requeue-overwrites",
        "truncates",
        _HEAD + "python t.py\nscontrol requeue $SLURM_JOB_ID\n",
    ),
    "a name of an array that is off": (
        "array-facts",
        "4294967294",
        _HEAD + "##SBATCH --array=0-2\n#SBATCH -o logs/%x.%3a.%A.out\npython t.py\n",
    ),
    "an index without an array": (
        "array-facts",
        "bash takes 0",
        _HEAD + "l=(1 2)\nl=${l[SLURM_ARRAY_TASK_ID]}\npython t.py $l\n",
    ),
    "an index above the limit": ("array-facts", "refuses 3550", _HEAD + "#SBATCH --array 2959-3550%30\npython t.py\n"),
    "a path from before the cd": (
        "path-not-there",
        "VQ/VQ/",
        _HEAD + 'ROOT=VQ\nS=$ROOT/data\ncd $ROOT\npython t.py a.root="$S" b="$ROOT/c.yaml"\n',
    ),
    "the memory of a node": ("memory-of-whole-node", "all memory", _GPU + "#SBATCH --mem=0\npython t.py\n"),
    "Ray that is stopped on a node": ("kill-by-name", "ray stop --force", _GPU + "python t.py\nray stop --force\n"),
    "Ray's own port": ("port-fixed", "6379", _GPU + "ray start --head --num-cpus=4\npython t.py\n"),
    "half a node of eight": (
        "port-fixed",
        "6379",
        _HEAD + "#SBATCH --gres=gpu:H800:4\nray start --head --num-cpus=4\npython t.py\n",
    ),
    "a key that nobody types": ("asks-a-person", "wandb asks", _GPU + 'srun bash -c "\nwandb login\npython t.py\n"\n'),
    "a token that nobody types": ("asks-a-person", "token", _GPU + "huggingface-cli login\npython t.py\n"),
    "a Python of the shell": (
        "environment-of-submission",
        "which python this is",
        _GPU + "module load gcc/8 cuda/10 cudnn\nsrun python ../t.py\n",
    ),
    "arguments of a text": (
        "arguments-split-again",
        "${A[*]} is split again",
        _GPU + 'A=("$@")\nCMD="cd /w; python t.py ${A[*]}"\nsrun bash -c "$CMD"\n',
    ),
    "all arguments of a text": ("arguments-split-again", "$*", _GPU + 'srun bash -c "cd /w; python t.py $*"\n'),
    "a file behind cd ..": ("source-relative", "./env.sh", _GPU + "cd ../\nsource ./env.sh\n./solve\n"),
    "weights of the web": (
        "download-in-job",
        "is given https://x.org/a.pt",
        _GPU + "W=https://x.org/a.pt\npython t.py --weights $W\n",
    ),
    "an environment that is brought up to date": ("install-in-job", "uv run", _GPU + "~/.local/bin/uv run t.py\n"),
    "a GPU for a conversion": (
        "gpus-for-data",
        "a GPU for create_tfrec.py",
        _GPU + "virtualenv e\ntar -xf a.tar\npython /home/model/create_tfrec.py\n",
    ),
    "an environment for nothing": (
        "work-switched-off",
        "starts no program in it",
        _GPU + "module load a\nconda activate fl\n",
    ),
    "a copy of a folder above": (
        "copy-may-fail",
        "if this cp fails",
        _GPU + "T=$TMPDIR/mine\ncp -r data $T\npython t.py --d $T/data/a\n",
    ),
    "a key in the log": (
        "secret-in-script",
        "HF_TOKEN is written into the log",
        _GPU + 'echo "t=$HF_TOKEN"\npython t.py\n',
    ),
    "a user in another shell's words": (
        "pattern-in-command",
        "%USER",
        _GPU + "tar xf /scratch/%USER/a.tar\npython t.py\n",
    ),
    "a port in a variable": (
        "port-fixed",
        "15346",
        _HEAD + "#SBATCH --gres=gpu:2\nPORT=15346\ntorchrun --nproc-per-node=2 --master_port=$PORT t.py\n",
    ),
    "a launcher of the shell": (
        "environment-of-submission",
        "which python this is",
        _GPU + "python -u -m torch.distributed.run --nproc_per_node=4 t.py\n",
    ),
    "the backend of Keras": (
        "not-exported",
        "KERAS_BACKEND does not reach the program",
        _GPU + "KERAS_BACKEND=tensorflow\nnohup python t.py 1\n",
    ),
    "a switch of Python": ("not-exported", "PYTHONHASHSEED", _GPU + "PYTHONHASHSEED=0\nsrun python t.py 1\n"),
    "a hint that gives no CPU": (
        "one-cpu",
        "4 GPUs of a node",
        "#!/bin/bash\n#SBATCH -n 4 -N 1\n#SBATCH --gres=gpu:4\n#SBATCH --hint=nomultithread\nsrun -K python t.py\n",
    ),
    "arguments that stay outside": (
        "arguments-not-handed-on",
        "$@ is empty in this shell",
        _GPU + "srun sh -c 'cd /w && python $@'\n",
    ),
    "the first argument stays outside": (
        "arguments-not-handed-on",
        "$1 is empty",
        _GPU + "apptainer exec i.sif bash -c 'python t.py --seed \"$1\"'\n",
    ),
    "a list with commas": (
        "text-as-command",
        "'b.json --name c' is one word, and no program is called that: a[0] does not keep its value",
        _GPU + 'a[0]="x --file", "b.json --name c"\npython t.py ${a[0]}\n',
    ),
    "a command in quotes": ("text-as-command", "no program", _GPU + '"python t.py --lr 1"\n'),
    "a word of csh": (
        "csh-in-bash",
        "unsetenv is a command of csh: bash does not know it",
        _GPU + "unsetenv PYTHONHOME\n",
    ),
    "an echo of csh": ("csh-in-bash", "and does nothing else", _GPU + "set echo\npython t.py\n"),
    "arguments that csh's echo takes": ("csh-in-bash", "arguments are lost", _GPU + "set echo\npython t.py $@\n"),
    "a dollar that is a sign": (
        "dollar-escaped",
        "PYTHONPATH ends in the word $PYTHONPATH",
        _GPU + "export PYTHONPATH=/a/b:\\$PYTHONPATH\nsrun python t.py\n",
    ),
    "a job that grows": (
        "job-file-grows",
        "a second run adds its text to job, and sbatch reads the first one",
        '#!/bin/bash\necho "#!/bin/bash\n#SBATCH -n $1\nmpirun python t.py" >> job\nsbatch job\n',
    ),
    "a module that is used": (
        "words-of-another-command",
        "module use adds a folder called cuda/11.0",
        _GPU + "module use cuda/11.0\npython t.py\n",
    ),
    "the end of a job by scancel": (
        "job-cancels-itself",
        "the job counts as CANCELLED",
        _GPU + "python t.py 1\nscancel ${SLURM_JOB_ID}\n",
    ),
    "a launcher without a number": (
        "one-process-many-gpus",
        "starts one process, for 2 GPUs",
        _MANY + "python -m torch.distributed.launch t.py\n",
    ),
    "a comment in the text of another shell": (
        "continuation-comment",
        "takes the rest for a comment: --seed is lost",
        _GPU + 'S=1\nbash -c "python t.py \\\n  --lr 1 \\\n  #--cache \\\n  --seed $S "\n',
    ),
}


def _messages(text: str, rule: str) -> list[str]:
    return [each.message for each in lint_source(source_of("job.sh", text)) if each.rule == rule]


@pytest.mark.parametrize("name", _FOUND)
def test_what_strangers_saw_is_found(name: str) -> None:
    rule, words, text = _FOUND[name]
    assert any(words in message for message in _messages(text, rule)), _messages(text, rule)


_RIGHT = {
    "a job that a person fills in": ("directive-value", _HEAD + "#SBATCH --dependency=afterok:XXX\n./t 1\n"),
    "a login before a sweep": ("status-lost-at-end", _GPU + "python -m wandb login\nwandb agent a/b/c\n"),
    "an argument under set -u": ("unset-under-nounset", _GPU + "set -u\npython t.py $1\n"),
    "a look at the image": ("status-lost-at-end", _GPU + "apptainer exec i lsb_release -a\napptainer exec i ./t 1\n"),
    "the beginning of an option": ("one-cpu", _GPU.replace("cpus-per-task", "cpus-per-tas") + "python train.py\n"),
    "Docker in a step": ("workers-beyond-cpus", _LOADS + "srun docker run image python train.py --num_workers 8\n"),
    "loaders on whole nodes": ("workers-beyond-cpus", _LOADS + "#SBATCH -C gpu\npython train.py --num_workers 8\n"),
    "loaders of a job for CPUs": (
        "workers-beyond-cpus",
        _HEAD.replace("=4", "=8") + "python train.py --num_workers 8\n",
    ),
    "a here-document that rests": ("status-lost-at-end", _GPU + "<<X\n./a 1\nX\n./b 1\n"),
    "notes with a script": ("no-interpreter", "cd /a\n#!/bin/bash\n#SBATCH -N1\n./t 1\n"),
    "a directive in notes": ("directive-after-command", "#!/bin/bash\n./t 1\n#SBATCH -o a\nls\n"),
    "a mail that is switched off": (
        "mail-without-type",
        _GPU + "#SBATCH --mail-user=a\n##SBATCH --mail-type=END\nls\n",
    ),
    "a pipe in the middle": ("status-lost-in-pipe", _GPU + "python t.py 1 | tee a\ndate\n"),
    "an argument without quotes": ("argument-unchecked", _GPU + "L=$1\npython t.py --lr $L --size $2\n"),
    "a pattern for an inner sbatch": ("pattern-in-command", _GPU + "./flow --cluster 'sbatch -o %j.out'\n"),
    "words that are filled in": ("directive-value", _GPU + "#SBATCH --nodes=NODES\n./t 1\n"),
    "variables that nothing sets": ("directive-expands", _GPU + "#SBATCH -J $RUN\n#SBATCH -q $QOS\n./t 1\n"),
    "a status where bash stops": ("status-lost-at-end", _GPU + "./a 1\n./b 1\nx = load(1)\n"),
    "a word that is called workers": ("workers-beyond-cpus", _LOADS + "python train.py workers 8\n"),
    "a site that gives CPUs by GPUs": ("one-cpu", _LOADS + "#! at most 32 cpus per GPU\npython train.py\n"),
    "a text behind the end": (
        "slurm-variable-unset",
        _LOADS + "./t\nexit $?\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nif true; then\n",
    ),
    "a name that sbatch is given": ("output-of-every-run", _GPU + "#SBATCH -o %x.out\npython t.py\n"),
    "a variable that is emptied": ("not-exported", _GPU + 'PYTHONPATH=""\npython t.py\n'),
    "a look at the device": (
        "status-lost-at-end",
        _GPU + "singularity exec <the image>/a python -c 'import torch'\nsingularity exec --nv i.sif python t.py\n",
    ),
    "a step of the job's own size": (
        "srun-survivors",
        _GPU + '#SBATCH -N1\n#SBATCH --ntasks-per-node=1\nsrun -N "$SLURM_NNODES" torchrun t.py\n',
    ),
    "a word of NCCL's in a job for CPUs": ("gpus-not-asked-for", _HEAD + "export NCCL_DEBUG=INFO\npython t.py\n"),
    "a directive without its #": ("status-lost-at-end", _HEAD + "SBATCH --mem=1G\ndate\n"),
    "a value with blanks around its sign": ("status-lost-at-end", _HEAD + "A = 3\ndate\n"),
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
    "a log that is added to": (
        "requeue-overwrites",
        _HEAD + "#SBATCH --open-mode=append\npython t.py\nscontrol requeue $SLURM_JOB_ID\n",
    ),
    "a name of a task that is used": (
        "array-facts",
        _HEAD + "#SBATCH -o %A_%a.out\npython t.py $SLURM_ARRAY_TASK_ID\n",
    ),
    "an index with a default": ("array-facts", _HEAD + "python t.py $((${SLURM_ARRAY_TASK_ID:-1} + 1))\n"),
    "an array of the line": (
        "array-facts",
        _HEAD + "# sbatch --array=0-3 job.sh\nl=(1 2)\npython t.py ${l[SLURM_ARRAY_TASK_ID]}\n",
    ),
    "a whole path": ("path-not-there", _HEAD + "R=$PWD/a\ncd $R\npython t.py $R/b\n"),
    "a folder of results in the folder": ("path-not-there", _HEAD + "R=a\ncd $R\npython t.py --out $R\n"),
    "a folder that is left": ("path-not-there", _HEAD + "R=a\ncd $R\ncd ..\npython t.py $R/b\n"),
    "all of a node": ("memory-of-whole-node", _GPU + "#SBATCH --mem=0\n#SBATCH --exclusive\npython t.py\n"),
    "a key of a variable": ("asks-a-person", _GPU + "export WANDB_API_KEY=$K\nwandb login\npython t.py\n"),
    "a token of an option": ("asks-a-person", _GPU + "huggingface-cli login --token $HF_TOKEN\npython t.py\n"),
    "conda, which takes the end of its input for yes": ("asks-a-person", _GPU + "conda install numpy\npython t.py\n"),
    "a Python of a path": ("environment-of-submission", _GPU + "/opt/env/bin/python t.py\n"),
    "a Python of an image": ("environment-of-submission", _GPU + "srun --container-image=a.sqsh python t.py\n"),
    "a Python of a module": ("environment-of-submission", _GPU + "module load python/3.11\npython t.py\n"),
    "a Python of a login shell": ("environment-of-submission", _GPU.replace("bash", "bash -l", 1) + "python t.py\n"),
    "arguments that are quoted": (
        "arguments-split-again",
        _GPU + 'Q=$(printf "%q " "$@")\nsrun bash -c "cd /w; python t.py $Q"\n',
    ),
    "a synced environment": ("install-in-job", _GPU + "uv run --no-sync t.py\n"),
    "an address of a server": ("download-in-job", _GPU + "python t.py --url http://localhost:80/a.pt\n"),
    "a folder that a trap removes": (
        "left-on-node",
        _HEAD + "mkdir /tmp/$SLURM_JOB_ID\ntrap 'rm -rf /tmp/$SLURM_JOB_ID' EXIT\n./solve /tmp/$SLURM_JOB_ID\n",
    ),
    "a conversion on a GPU": ("gpus-for-data", _GPU + "python convert_all.py --device cuda\n"),
    "a conversion and its training": ("gpus-for-data", _GPU + "python convert_all.py\npython fit.py\n"),
    "a look at an environment": ("work-switched-off", _GPU + "conda activate fl\nconda list\n"),
    "a copy to another folder": ("copy-may-fail", _GPU + "cp -r data /tmp/a\npython t.py --d /tmp/ab/c\n"),
    "a token of a notebook": ("secret-in-script", _GPU + "echo http://localhost/?token=$TOKEN\npython t.py\n"),
    "a key whose presence is said": (
        "secret-in-script",
        _GPU + "echo ${WANDB_API_KEY:+set} ${#WANDB_API_KEY}\npython t.py\n",
    ),
    "a key that is handed on": ("secret-in-script", _GPU + "echo $WANDB_API_KEY | wandb login\npython t.py\n"),
    "lines of a file": ("status-lost-at-end", _GPU + "readarray -t h < hosts\npython t.py\n"),
    "settings of an environment": ("status-lost-at-end", _GPU + 'eval "$(pyenv init -)"\npython t.py\n'),
    "a pattern of a date": ("pattern-in-command", _GPU + "date +/%u/\npython t.py\n"),
    "a port of the job": (
        "port-fixed",
        _GPU + "P=$((20000 + SLURM_JOB_ID % 9999))\ntorchrun --nproc-per-node=1 --master_port=$P t.py\n",
    ),
    "a sign in the text of another shell": (
        "continuation-comment",
        _GPU + 'S=1\nbash -c "python t.py \\\n  --lr 1 \\\n  --seed $S #cache"\n',
    ),
    "a job that cancels itself": (
        "status-lost-at-end",
        _GPU + "(srun ./a 1)&\npython t.py 1\npython u.py 2\nscancel $SLURM_JOBID\n",
    ),
    "a look at the devices": ("status-lost-at-end", _GPU + "lshw -C display | tail\npython t.py 1\n"),
    "GPUs of each CPU": ("one-process-many-gpus", _MANY + "srun -n1 python t.py --gpus_per_cpu 4\n"),
    "batches of each device": ("one-process-many-gpus", _MANY + "python t.py --per_device_train_batch_size 4\n"),
    "GPUs without dashes": ("one-process-many-gpus", _MANY + "python t.py gpus='0,1' lr=1\n"),
    "a program of ranks by its name": ("one-process-many-gpus", _MANY + "python ddp_train.py --config a\n"),
    "a hint that gives whole sockets": (
        "one-cpu",
        "#!/bin/bash\n#SBATCH -N 1\n#SBATCH --gres=gpu:1\n#SBATCH --hint=compute_bound\nsrun -K python t.py\n",
    ),
    "a folder of the script's own": ("not-exported", _GPU + "TF_DIR=/a\nCUDA_DIR=/b\nsrun python t.py 1\n"),
    "arguments that are handed on": ("arguments-not-handed-on", _GPU + "srun sh -c 'python $@' sh $@\n"),
    "arguments of another set": ("arguments-not-handed-on", _GPU + "srun sh -c 'set -- a b; python $@'\n"),
    "arguments of a function": ("arguments-not-handed-on", _GPU + "bash -c 'f() { python $1; }; f a'\n"),
    "a default argument": ("arguments-not-handed-on", _GPU + "bash -c 'python ${1:-a}'\n"),
    "a column of awk": ("arguments-not-handed-on", _GPU + "bash -c 'python t.py | awk \"{print \\$1}\"'\n"),
    "arguments by xargs": ("arguments-not-handed-on", _GPU + "ls | xargs -n1 sh -c 'python t.py $0 $1'\n"),
    "a program with a blank in its name": ("text-as-command", _GPU + '"/opt/my tools/t" 1\n"./a b" 1\n'),
    "a function of csh's name": ("csh-in-bash", _GPU + "unsetenv() { unset $1; }\nunsetenv A\n"),
    "arguments of the shell": ("csh-in-bash", _GPU + "set echo 1\nset -- verbose\necho $1\n"),
    "a script of csh": ("csh-in-bash", "#!/bin/csh\n#SBATCH -N 1\nsetenv A 1\npython t.py\n"),
    "a dollar for later": ("dollar-escaped", _GPU + "A=/a:\\$A\neval python t.py $A\n"),
    "a dollar for a text": ("dollar-escaped", _GPU + 'C="export A=/a:\\$A"\nssh h "$C"\n'),
    "a job that begins anew": ("job-file-grows", '#!/bin/bash\nrm -f job\necho "#!/bin/bash" >> job\nsbatch job\n'),
    "a job written and added to": (
        "job-file-grows",
        '#!/bin/bash\necho "#!/bin/bash" > job\necho "#!/bin/bash" >> job\nsbatch job\n',
    ),
    "a folder of modules": ("words-of-another-command", _GPU + "module use /a/cuda/11.0\nmodule use mods\n"),
    "a cancelling at a failure": ("job-cancels-itself", _GPU + "python t.py || scancel $SLURM_JOB_ID\n"),
    "the cancelling of another job": ("job-cancels-itself", _GPU + "python t.py 1\nscancel $OTHER\n"),
    "a cancelling that is meant": (
        "job-cancels-itself",
        _GPU + "python t.py 1\n# cancel the server's other steps too\nscancel $SLURM_JOB_ID\n",
    ),
    "an environment of its own": (
        "status-lost-at-end",
        _GPU + "unsetenv A\nworkon e\nflight env activate conda@x\npython t.py 1\n",
    ),
    "a build that is off": ("work-switched-off", _GPU + "#python setup.py install\nhostname\n"),
}


@pytest.mark.parametrize("name", _RIGHT)
def test_what_is_right_is_not_blamed(name: str) -> None:
    rule, text = _RIGHT[name]
    assert _messages(text, rule) == []


def _lone(text: str) -> list[tuple[Severity, str]]:
    found = lint_source(source_of("job.sh", text))
    return [(each.severity, each.message) for each in found if each.rule == "one-process-many-gpus"]


def test_a_program_that_nobody_read_may_use_all_gpus() -> None:
    assert _lone(_MANY + "python t.py\n") == [
        (
            Severity.STYLE,
            "one process has 2 GPUs of a node (not known: whether the program divides its work itself)",
        )
    ]
    rows = _lone(_MANY + "python t.py 1\npython t.py 2\n")
    assert [severity for severity, _ in rows] == [Severity.STYLE]


def test_a_copy_behind_the_work_may_fail_with_it() -> None:
    assert _messages(_GPU + "python t.py\ncp out.csv ~/r\n", "status-lost-at-end") == []
    assert _messages(_GPU + "python t.py\ncp -r out ~/r\n", "status-lost-at-end") == [
        "the job ends with the status of 'cp' in line 7: where that goes well a failure here counts as COMPLETED"
    ]


def test_a_loop_without_end_has_no_last_run() -> None:
    loop = "while true; do\npython t.py 1\n{}done\n"
    found = _messages(_GPU + loop.format(""), "status-lost-at-end")
    assert found == ["the loop has no end: when this fails it goes on until the time limit"]
    left = _messages(_GPU + loop.format("[ -e stop ] && break\n"), "status-lost-at-end")
    assert left == ["a run of the loop that fails is not noticed: the job ends with the status of what runs last"]
    piped = _messages(_GPU + "for i in 1 2; do\n./t $i\ndone | tee log\n", "status-lost-at-end")
    assert piped == ["the job ends with the status of what reads the pipe: a failed run is not noticed"]


def _beside(folder: Path, name: str, *others: str) -> list[str]:
    """Return the messages of path-not-there for a script of a project that holds these files too."""
    (folder / "scripts").mkdir()
    for other in ("README.md", *others):
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_text("")
    script = folder / "scripts/job.sh"
    script.write_text(_GPU + f"torchrun --standalone --nproc-per-node=1 -m {name} --lr 1\n")
    found = lint_source(source_of(str(script), script.read_text()))
    return [each.message for each in found if each.rule == "path-not-there"]


@pytest.mark.parametrize("others", [("ours/train.py",), ("ours.py",), ("setup.py",), ("src/ours/train.py",)], ids=str)
def test_a_module_that_lies_around_the_script_is_not_blamed(tmp_path: Path, others: tuple[str, ...]) -> None:
    (tmp_path / "src/ours").mkdir(parents=True)
    assert _beside(tmp_path, "ours.train", *others) == []


def test_a_module_that_no_folder_holds_is_found(tmp_path: Path) -> None:
    assert _beside(tmp_path, "ours.train", "train.py") == [
        "no folder around the script holds ours (not known: what is installed)"
    ]


def test_a_module_of_torch_is_not_looked_for(tmp_path: Path) -> None:
    assert _beside(tmp_path, "torch.utils.collect_env") == []


def test_a_late_directive_with_a_variable_is_told_to_write_its_value() -> None:
    found = lint_source(source_of("job.sh", _HEAD + "date\n#SBATCH --job-name=a_${N}\nsrun hostname\n"))
    late = next(each for each in found if each.rule == "directive-after-command")
    assert "sbatch expands no variable" in late.instead


def test_a_name_that_the_shell_makes_is_read() -> None:
    shell = read_shell("A=1\nexport B_${c}=\\\\${d}")
    assert [(each.name, each.value and each.value.value) for each in shell.assignments] == [("A", "1")]
    assert read_shell("export B_${c}=\\\\${d}").assignments == ()
