"""What a reading of scripts of other repositories taught: what is right is not blamed, what is doubtful says so,
and what is wrong is found however it is written. The scripts here are our own, each as short as its fault allows.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from muster_lint.look import lint_source
from muster_lint.read import FileKind, source_of
from muster_lint.values import LintFinding, Severity

_HEAD = "#!/bin/bash\n#SBATCH --time=60\n"
_ONE = _HEAD + "#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n"
_GPU = _ONE + "#SBATCH --gres=gpu:1\n"
_TWO = _HEAD + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"
_NODES = _HEAD + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
_ADDRESS = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
_PORT = "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 9999))\n"


def _findings(text: str, path: str = "job.sh") -> list[LintFinding]:
    return lint_source(source_of(path, text))


_findings_of = cache(_findings)
"""The same for a text alone: two tests ask for each case."""


def _named(text: str, rule: str) -> LintFinding | None:
    return next((finding for finding in _findings_of(text) if finding.rule == rule), None)


_RIGHT = {
    "blanks in a text of another language": (
        "assignment-with-blanks",
        _ONE + "cat > m.lua <<EOF\nlocal root = 1\nexport CC = gcc\nEOF\npython -c '\nexport A = 1\n'\necho $root $A\n",
    ),
    "a module that may hold conda": ("conda-not-set-up", _GPU + "module load miniforge\nconda activate x\n"),
    "ranks of MPI": ("one-process-many-gpus", _ONE + "#SBATCH --gres=gpu:2\nmpirun -np 2 python t.py\n"),
    "a path that is told": ("placeholder", _GPU + 'echo "/path/to/data"\npython t.py\n'),
    "a file whose name the script gives it with the same rank": (
        "task-variable-too-early",
        _TWO + "echo 'hostname' > w_${SLURM_PROCID}.sh\nsrun -K bash w_${SLURM_PROCID}.sh\n",
    ),
    "a folder that the usage makes": (
        "output-folder",
        _ONE + "#SBATCH -o logs/%j.out\n# mkdir -p logs && sbatch job.sh\nmkdir -p logs\ndate\n",
    ),
    "servers that know nothing of each other": (
        "srun-survivors",
        _TWO + _ADDRESS + "srun python serve-data.py &\nwait $!\n",
    ),
    "a copy whose end decides": ("removed-after-copy", _GPU + "python t.py\ncp -r /t/o /r && rm -rf /t/o\n"),
    "a copy that is asked for": (
        "removed-after-copy",
        _GPU + "python t.py\ncp -r /t/o /r || exit 1\nrm -rf /t/o\n",
    ),
    "a copy in front of the work": ("removed-after-copy", _GPU + "cp -r /t/o /r\npython t.py\nrm -rf /t/o\n"),
    "a copy within what is removed": ("removed-after-copy", _GPU + "python t.py\ncp /t/o/a /t/b\nrm -rf /t\n"),
    "a removal in a branch": (
        "removed-after-copy",
        _GPU + "python t.py\ncp -r /t/o /r\nif [ -d /r/o ]; then rm -rf /t/o; fi\n",
    ),
    "a copy under a trap of ERR": (
        "removed-after-copy",
        _GPU + "trap 'exit 1' ERR\npython t.py\ncp -r /t/o /r\nrm -rf /t/o\n",
    ),
    "a copy under a trap of ERR that calls a function": (
        "removed-after-copy",
        _GPU + "stop() {\n  exit 1\n}\ntrap stop ERR\npython t.py\ncp -r /t/o /r\nrm -rf /t/o\n",
    ),
    "a copy under set -e": ("removed-after-copy", _GPU + "set -e\npython t.py\ncp -r /t/o /r\nrm -rf /t/o\n"),
    "a function that waits": (
        "background-without-wait",
        _GPU + "run() {\n  python t.py $1 &\n  wait\n}\nrun 1\n",
    ),
    "functions that are waited for": (
        "background-without-wait",
        _GPU + "run() { python t.py $1 & }\nrun 1\nrun 2\nwait\n",
    ),
    "text behind the end of bash": ("return-in-script", _GPU + "python t.py\nif x; then\n)\nreturn 3\n"),
    "installs of the node's own wheels in a container": (
        "install-in-job",
        _GPU + "srun apptainer exec --nv i.sif pip install --no-index x\n",
    ),
    "more than one CPU": ("one-cpu", _HEAD + "#SBATCH -N1 --gres=gpu:1 --cpus-per-task=2\npython t.py\n"),
    "PYTHONPATH of the folder of the submission": (
        "file-beside-script",
        _GPU + "PYTHONPATH=$SLURM_SUBMIT_DIR/.. python /a/t.py\n",
    ),
    "an array with the brackets of squeue": ("directive-value", _ONE + "#SBATCH --array=[13]%6\ndate\n"),
    "GPUs for each task, and one task in each step": (
        "gpus-per-task",
        _HEAD + "#SBATCH -N2 -n4 --gpus-per-task=4\nsrun -n1 -N1 torchrun --nproc_per_node=4 t.py &\nwait $!\n",
    ),
    "the host of the one task": (
        "hostname-too-early",
        _GPU + "srun python t.py --worker http://$(hostname):31011\n",
    ),
    "a switch with its reason behind it": (
        "fabric-off",
        _ONE + "#SBATCH --gres=gpu:2\nexport NCCL_P2P_DISABLE=1 # 3090s have none\npython t.py\n",
    ),
    "a variable that a file may set": (
        "variable-never-set",
        _GPU + "source ./settings.sh\npython t.py --step $step\n",
    ),
    "a variable of let": ("variable-never-set", _GPU + 'let "n=2+1"\n((m=n*4))\npython t.py $n $m\n'),
    "an entry of an array": ("variable-never-set", _GPU + "opt[0]=1\nopt[1]=2\npython t.py ${opt[1]}\n"),
    "a variable with a default": ("variable-never-set", _GPU + "python t.py ${step:-10}\n"),
    "GPUs by a feature of the node": (
        "gpus-not-asked-for",
        _ONE + "#SBATCH --constraint=gpu\nnvidia-smi\npython t.py\n",
    ),
    "exit behind good news": (
        "exit-without-status",
        _ONE + "if [ -f done ]; then\n  echo 'all is there'\n  exit\nfi\ndate\n",
    ),
    "processes of a whole node": (
        "kill-by-name",
        _GPU + "#SBATCH --exclusive\npkill python\npython t.py\n",
    ),
    "a server with a key": ("server-open", _GPU + "vllm serve m --host 0.0.0.0 --api-key $KEY\n"),
    "a folder of the job's name, made beside the script": ("output-folder", _ONE + "#SBATCH -o %x-%j.out\ndate\n"),
    "an echo in another branch": (
        "status-lost-at-end",
        _GPU + 'if [ "$1" = a ]; then\n  python t.py\nelse\n  echo unknown\nfi\n',
    ),
    "a variable in what the grammar does not read": (
        "variable-never-set",
        _GPU
        + "for head_id in $(seq 3); do\n  python t.py $head_id\n  if ! (((head_id + 1) % 2)); then wait; fi\ndone\n",
    ),
    "an address of one's own host list": (
        "address-literal",
        _NODES + "#SBATCH --nodelist=n1,n2\nexport MASTER_ADDR=10.0.0.1\nsrun -K python t.py\n",
    ),
    "an array whose number has a default": (
        "array-beyond-list",
        _GPU
        + "#SBATCH --array=1-15\nif [ -z $X ]; then SLURM_ARRAY_TASK_ID=13; fi\npython t.py $SLURM_ARRAY_TASK_ID\n",
    ),
    "a step that is told its ranks": (
        "gpus-idle",
        _TWO.replace("ntasks-per-node=4", "ntasks-per-node=2") + "srun -K --ntasks-per-node=4 python t.py\n",
    ),
    # statuses that are not lost, and steps that are right
    "a chain that ends in an echo": ("status-lost-at-end", _GPU + "python train.py && echo done\n"),
    "a program whose status is asked": ("status-lost-at-end", _GPU + "if ! python t.py; then\n  exit 1\nfi\n"),
    "a program that ends the script itself": ("status-lost-at-end", _GPU + "python t.py || exit 1\necho done\n"),
    "exit without a number": ("status-lost-at-end", _GPU + "python t.py\nexit\n"),
    "a function of the script": ("status-lost-at-end", _GPU + "say() { echo a; }\nsay\necho done\n"),
    "a wait for each program": (
        "wait-forgets-status",
        _GPU + "python a.py & a=$!\npython b.py & b=$!\nwait $a || exit 1\nwait $b || exit 1\n",
    ),
    "a wait for a server": ("wait-forgets-status", _GPU + "vllm serve m &\nwait\n"),
    "a rank that the task expands": (
        "task-variable-too-early",
        _TWO + "CMD='python t.py --rank $SLURM_PROCID'\nsrun -K bash -c \"$CMD\"\n",
    ),
    "a rank under a c10d rendezvous": (
        "task-variable-too-early",
        _NODES + 'A="--node_rank $SLURM_PROCID"\nsrun -K torchrun $A --rdzv-backend=c10d --nnodes=2 t.py\n',
    ),
    "torchrun alone on its node": ("port-fixed", _GPU + "torchrun --standalone --nproc_per_node=1 t.py\n"),
    "vLLM on all GPUs": (
        "one-process-many-gpus",
        _ONE + "#SBATCH --gres=gpu:4\nvllm serve model --tensor-parallel-size 4\n",
    ),
    "a program that is told its GPUs by one dash": (
        "one-process-many-gpus",
        _ONE + "#SBATCH --gpus-per-node=4\npython t.py -gpus 4\n",
    ),
    "a command in the task's shell that is not exported": (
        "srun-cpus-per-task",
        _TWO + "#SBATCH -c 8\nCMD='python t.py'\nsrun -K bash -c '$CMD --rank $SLURM_PROCID'\n",
    ),
    "a variable of its own line behind the header": ("template", _ONE + "${COMMAND}\npython t.py\n"),
    "a list of nodes through a pipe": (
        "status-lost-in-pipe",
        _HEAD + "srun -l bash -c 'hostname' | sort -u > nodes\npython t.py\n",
    ),
    "tasks that srun starts": ("tasks-as-cpus", _ONE + "#SBATCH --ntasks=8\nsrun python t.py\n"),
    "the devices of Lightning's tasks": ("size-told-differs", _TWO + "srun -K python t.py --devices 4 --num_nodes 2\n"),
    "one GPU for each task": ("size-told-differs", _TWO + "srun -K python t.py --gpus 1\n"),
    "a copy that is asked": ("copy-may-fail", _ONE + "cp -r d /tmp/d || exit 1\npython t.py /tmp/d\n"),
    "a copy of a setting": ("copy-may-fail", _ONE + "cp a.yaml $OUT/\npython t.py --out $OUT\n"),
    "a copy that nothing uses": ("copy-may-fail", _ONE + "cp -r d /tmp/d\npython t.py\n"),
    "activate behind a module": ("conda-not-set-up", _ONE + "module load anaconda3\nsource activate a\ndate\n"),
    "a script with a default": ("step-without-command", _TWO + "srun -K bash ${1:-a.sh}\n"),
    "a port that is handed on": (
        "variable-unread",
        _GPU + "export MASTER_PORT=1234\ndeepspeed --master_port $MASTER_PORT t.py\n",
    ),
    "GPUs of one node": ("gpus-in-all", _ONE + "#SBATCH --gpus=2\ntorchrun --nproc-per-node=2 t.py\n"),
    "a copy by one task": ("same-work-in-every-task", _TWO + "srun --ntasks-per-node=1 rsync -a d /tmp/d\n"),
    "tasks that a program is told of": ("tasks-as-cpus", _HEAD + "#SBATCH -n 8\npython t.py -j $SLURM_NTASKS\n"),
    # the ten worst false alarms of the reading
    "a container on AMD GPUs": (
        "container-without-gpus",
        _TWO + "module load rocm\nsrun -K apptainer exec a.sif python x.py\n",
    ),
    "a container at a site of AMD GPUs": (
        "container-without-gpus",
        _TWO + "#SBATCH --account=project_1\nsrun -K singularity exec /appl/rocm-6.sif python x.py\n",
    ),
    "a GPU for each task, and one task": (
        "gpus-per-task",
        _HEAD + "#SBATCH --ntasks=1\n#SBATCH --gpus-per-task=1\nsrun -K python x.py\n",
    ),
    "GPUs for each task, and no step": (
        "gpus-per-task",
        _HEAD + "#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=1\nmpirun python x.py\n",
    ),
    "a comment at the end of a command": (
        "continuation-comment",
        _ONE + "python x.py --a 1 \\\n# --b 2\necho done\n",
    ),
    "a comment that ends in a backslash": ("continuation-comment", _ONE + "date # now && \\\n# later\n--b\n"),
    "a command that somebody commented out": (
        "directive-misspelt",
        _ONE + "#sbatch --dependency=afterok:1 next.sh\ndate\n",
    ),
    "a commented command behind the first command": (
        "directive-misspelt",
        _ONE + "date\n#sbatch --qos=debug\n",
    ),
    "an option of pyxis": ("directive-unknown", _ONE + "#SBATCH --container-image=a+b\ndate\n"),
    "a rank that nobody reads": (
        "rank-exported-by-script",
        _NODES
        + "export NODE_RANK=$SLURM_PROCID\nsrun -K torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d"
        + " --node-rank=$NODE_RANK --rdzv-endpoint=$H:$P x.py\n",
    ),
    "a rank that is not exported": (
        "rank-exported-by-script",
        _TWO + "NODE_RANK=$SLURM_PROCID\nsrun -K python x.py\n",
    ),
    "one task of one GPU": ("srun-survivors", _HEAD + "#SBATCH --gpus=1\nsrun python train.py\n"),
    "InfiniBand off beside EFA": (
        "fabric-off",
        _TWO + "export NCCL_IB_DISABLE=1 FI_PROVIDER=efa\nsrun -K python x.py\n",
    ),
    "InfiniBand off on one node": ("fabric-off", _GPU + "export NCCL_IB_DISABLE=1\npython x.py\n"),
    "an array from sbatch's words": (
        "slurm-variable-unset",
        _ONE + "#SBATCH --output=%A_%a.out\npython x.py $SLURM_ARRAY_TASK_ID\n",
    ),
    "the folder of the script": (
        "cd-may-fail",
        _ONE + 'DIR="$( cd -- "$(dirname "$0")" &> /dev/null && pwd )"\nrm -rf $DIR/old\n',
    ),
    # what was useless, or claimed more than was read
    "a script in a string": (
        "directive-after-command",
        _ONE + 'date\nTEXT="#!/bin/bash\n#SBATCH --nodes=4\nsrun a"\necho "$TEXT" > a.sh\n',
    ),
    "a backslash in a string": ("continuation-comment", _ONE + 'echo "\\\n#SBATCH --nodes=4\n--x" > a.sh\n'),
    "tasks that are runs of their own": (
        "srun-survivors",
        _TWO + 'srun bash -c "python t.py --run \\$SLURM_PROCID >> log_\\$SLURM_PROCID"\n',
    ),
    "--export=all": ("export-drops-environment", _ONE + "#SBATCH --export=all\npython x.py\n"),
    "conda in a login shell": (
        "conda-not-set-up",
        _ONE.replace("bash", "bash --login", 1) + "conda activate a\npython x.py\n",
    ),
    "a closest GPU for each of as many tasks": (
        "gpu-bind-hides",
        _TWO + "srun -K --gpu-bind=closest python x.py\n",
    ),
    "a name of Slurm's that is only shown": (
        "slurm-variable-misspelt",
        _ONE + 'echo "$SLURM_JOB_NUMNODES"\n',
    ),
    "an address for mails": ("placeholder", _ONE + "#SBATCH --mail-user=ann.lee@site.edu\ndate\n"),
    "a number of the task that is right": (
        "task-variable-too-early",
        _ONE + "srun -K python x.py --rank $SLURM_PROCID\n",
    ),
    "a node list of one node": ("address-is-a-list", _GPU + "export MASTER_ADDR=$SLURM_NODELIST\npython x.py\n"),
    "a node list that perl takes apart": (
        "address-is-a-list",
        _TWO + "export MASTER_ADDR=`perl -le '$_=$ENV{\"SLURM_JOB_NODELIST\"}; s/,.*//; print'`\nsrun -K python x.py\n",
    ),
    "an address that nobody uses": (
        "address-is-loopback",
        _TWO + "head_node=localhost\necho $head_node\nsrun -K python x.py\n",
    ),
    "options that nobody can read": (
        "standalone-on-nodes",
        _NODES + "srun -K torchrun $ARGS --nproc-per-node=4 x.py\n",
    ),
    "flags that nobody can read": ("srun-survivors", _TWO + _ADDRESS + "srun $SRUN_ARGS python train.py\n"),
    "flags in an array": (
        "srun-survivors",
        _TWO + _ADDRESS + 'ARGS=(--wait=60)\nARGS+=(--kill-on-bad-exit=1)\nsrun "${ARGS[@]}" python train.py\n',
    ),
    "flags in an array that another file began": (
        "srun-survivors",
        _TWO + _ADDRESS + 'source settings.sh\nARGS+=(--wait=60)\nsrun "${ARGS[@]}" python train.py\n',
    ),
    "a sign between blanks that is a word": ("assignment-with-blanks", _ONE + "echo loss = 3\n"),
    "wheels of the site": ("install-in-job", _ONE + "pip install --no-index torch\npython x.py\n"),
    "several programs, and each is waited for": (
        "wait-forgets-status",
        _GPU + "python a.py &\na=$!\npython b.py &\nwait $a\nwait\n",
    ),
    "a program beside another": ("background-without-wait", _GPU + "python monitor.py &\npython train.py\n"),
    "a program that is left for a terminal": ("background-without-wait", "#!/bin/bash\npython train.py &\n"),
    "a switch for this node's own disk": ("output-of-every-run", _ONE + "#SBATCH --output=%x-%j.out\ndate\n"),
    "a log that grows": (
        "output-of-every-run",
        _ONE + "#SBATCH --output=a.out\n#SBATCH --open-mode=append\ndate\n",
    ),
    "a step whose command is in a variable": ("step-without-command", _ONE + "srun $COMMAND\n"),
    "a step that asks for help": ("step-without-command", _ONE + "srun --version\n"),
    "a list as long as the array": (
        "array-beyond-list",
        _ONE + "#SBATCH --array=1-3\nA=(a b c)\n./x ${A[$((SLURM_ARRAY_TASK_ID - 1))]}\n",
    ),
    "memory in megabytes that is enough": ("memory-in-megabytes", _ONE + "#SBATCH --mem=64000\ndate\n"),
    "half an hour": ("time-in-minutes", _ONE.replace("time=60", "time=30:00") + "date\n"),
    "a launcher for many GPUs": (
        "one-process-many-gpus",
        _GPU.replace("gpu:1", "gpu:4") + "torchrun --nproc-per-node=4 x.py\n",
    ),
    "a program that is told its GPUs": (
        "one-process-many-gpus",
        _GPU.replace("gpu:1", "gpu:4") + "python x.py --gpus 4\n",
    ),
    "bash -c with options on lines of their own": (
        "options-alone",
        _ONE + "python x.py \\\n    --a 1 \\\n    --b 2\n",
    ),
    "a GPU asked for on srun": ("gpus-not-asked-for", _ONE + "module load cuda\nsrun -K --gres=gpu:1 python x.py\n"),
    "two ways to write one value": (
        "directive-twice",
        _ONE + "#SBATCH --account=<your account here>\ndate\n",
    ),
    "a file of the node's own folder": ("source-relative", _GPU + "source /etc/profile\npython /a/t.py\n"),
    "a port at TACC, whose nodes are whole": (
        "port-fixed",
        _TWO.replace("node=4", "node=2")
        + "cd /work/01234/me\n"
        + _ADDRESS
        + "export MASTER_PORT=29500\nsrun -K python t.py\n",
    ),
    "a line of Python in every task": ("srun-survivors", _TWO + _ADDRESS + "srun -n 8 python -c 'print(1)'\n"),
    "a step on one node of one task": (
        "srun-survivors",
        _NODES + _ADDRESS + 'srun --nodes=1 bash -c "python t.py --machine-rank \\$SLURM_PROCID"\n',
    ),
    "no GPU in a word": ("one-cpu", _HEAD + "#SBATCH --nodes=1\n#SBATCH --gres=gpu:0\npython x.py\n"),
    "a port that another file may set": (
        "port-missing",
        _TWO + _ADDRESS + "source ./socket.sh\nsrun -K python x.py\n",
    ),
    "a port on a node of one's own": (
        "port-fixed",
        _GPU.replace("gpu:1", "gpu:8") + "torchrun --nproc-per-node=8 --master-port=29500 x.py\n",
    ),
    "a switch with its reason": (
        "fabric-off",
        _TWO + "# these GPUs have no peer access\nexport NCCL_P2P_DISABLE=1\nsrun -K python x.py\n",
    ),
    "tasks that see all GPUs": (
        "gpus-per-task",
        _TWO + "#SBATCH --gpus-per-task=1\n#SBATCH --gpu-bind=none\nsrun -K python x.py\n",
    ),
    "a module that is unloaded": (
        "modules-after-environment",
        _ONE + "conda activate a\nmodule unload python\npython x.py\n",
    ),
    "an environment that is activated again": (
        "modules-after-environment",
        _ONE + "source a/bin/activate\nmodule load python\nsource a/bin/activate\npython x.py\n",
    ),
    "an array with a comment in it": (
        "standalone-on-nodes",
        _NODES + 'ARGS=(\n  # all nodes\n  --nnodes=2\n  --rdzv-endpoint=$H:1\n)\nsrun -K torchrun "${ARGS[@]}" x.py\n',
    ),
    "zsh": ("not-bash", _ONE.replace("bash", "zsh", 1) + "for i in a b; { echo $i }\n"),
    "no mail": ("placeholder", _ONE + "#SBATCH --mail-type=none\n#SBATCH --mail-user=you@your.org\ndate\n"),
    "a look at the GPUs": ("one-cpu", _HEAD + "#SBATCH --nodes=1\n#SBATCH --gres=gpu:2\nhostname\nnvidia-smi\n"),
    "a job that makes an environment": (
        "install-in-job",
        _ONE + "python3 -m venv v\nsource v/bin/activate\ngit clone x\npip install ./x\npython -m pip install y\n",
    ),
    "launchers that know of one node each": ("srun-survivors", _NODES + _ADDRESS + "srun deepspeed t.py\n"),
    "launchers of one node": ("srun-survivors", _NODES + _ADDRESS + "srun torchrun --standalone t.py\n"),
    "a deepspeed that is told the nodes": ("standalone-on-nodes", _NODES + "srun -K deepspeed -H hosts t.py\n"),
    "an empty name within a path": ("placeholder", _ONE + "END=''\ncp a/$END/b c\nend=${END}\npython t.py\n"),
    "names that may hold something": (
        "placeholder",
        _ONE + "A=''\nA=/x\nB='' date\nif x; then C=''; fi\nD=(x)\nls $A/y $B/y $C/y $D/y\n",
    ),
    "conda init beside conda.sh": ("conda-not-set-up", _GPU + "source /opt/conda.sh\nconda init\nconda activate x\n"),
    "conda init before ~/.bashrc": ("conda-not-set-up", _GPU + "conda init\nsource ~/.bashrc\nconda activate x\n"),
    "a port that nobody takes": ("port-fixed", _GPU + "export MASTER_PORT=1234\ntorchrun --standalone t.py\n"),
    "a port beside a Python that trains nothing": (
        "port-fixed",
        _GPU + "export MASTER_PORT=1234\npython -V\npython - <<E\nprint(1)\nE\ntorchrun --standalone t.py\n",
    ),
    "a path that was set above": (
        "unset-under-nounset",
        _ONE + "set -u\nexport CPATH=/a\nexport CPATH=/b:$CPATH\nPYTHONPATH=${PYTHONPATH:-}:/b\n",
    ),
    "a path before set -u": ("unset-under-nounset", _ONE + "export CPATH=/b:$CPATH\nset -u\ndate\n"),
    "a feature of the nodes": ("directive-value", _ONE + '#SBATCH --constraint="a100&ib"\ndate\n'),
    "a limit that ends the others as soon as a time-out": (
        "srun-survivors",
        _TWO.replace("60", "10") + "srun python t.py\n",
    ),
    "a loop over one word": ("status-lost-at-end", _GPU + "for a in one; do\n  python t.py --name $a\ndone\n"),
    "a loop over one entry": ("status-lost-at-end", _GPU + 'A=(one)\nfor a in "${A[@]}"; do\n  python t.py $a\ndone\n'),
    "a number of ranks from a branch": (
        "more-ranks-than-gpus",
        _NODES + "if x; then\n  N=8\nfi\nsrun -K torchrun --nproc_per_node=$N t.py\n",
    ),
    "names of nodes in a variable": ("nodes-pinned", _ONE + "#SBATCH -w $HOSTS\ndate\n"),
    "a folder of the job's own": ("temporary-path-shared", _GPU + "cp -r d /tmp/$SLURM_JOB_ID\npython t.py\n"),
    "a whole node": ("temporary-path-shared", _GPU + "#SBATCH --exclusive\ncp -r d /tmp/x\npython t.py\n"),
    "a copy that is there already": ("temporary-path-shared", _GPU + "[ -d /tmp/x ] || cp -r d /tmp/x\npython t.py\n"),
    "a log of all tasks": ("array-shares-file", _GPU + "#SBATCH -a 0-3\npython t.py $SLURM_ARRAY_TASK_ID >> log\n"),
    "a folder of each task": ("array-shares-file", _GPU + "#SBATCH -a 0-3\ncd $SLURM_ARRAY_TASK_ID\n./t > log\n"),
    "an argument with its usage": ("argument-unchecked", _GPU + "# usage: sbatch job.sh MODEL\npython t.py $1\n"),
    "an argument that is counted": ("argument-unchecked", _GPU + "[ $# = 1 ] || exit 1\npython t.py $1\n"),
    "an argument of a function": ("argument-unchecked", _GPU + "run() {\n  python t.py $1\n}\nrun a\n"),
    "a relative file behind cd": ("source-relative", _GPU + "cd /a\nsource env.sh\npython /a/t.py\n"),
    "a relative file whose lack ends the job": ("source-relative", _GPU + "set -e\nsource env.sh\npython /a/t.py\n"),
    "a trap without srun": ("step-in-exit-trap", _GPU + "trap 'date' EXIT\nsrun python t.py\n"),
    "a variable that is set under set -u": (
        "unset-under-nounset",
        _GPU + "set -u\nK=1\npython t.py $K $SLURM_JOB_ID\n",
    ),
    "a default under set -u": ("unset-under-nounset", _GPU + 'set -u\npython t.py "${K:-}" ${1:-a}\n'),
    "a variable that the script asks for": ("unset-under-nounset", _GPU + "set -u\n: ${K:?no K}\npython t.py $K\n"),
    "an argument of a function under set -u": ("unset-under-nounset", _GPU + "set -u\nf() {\n  a=$1\n}\nf 1\n"),
    "an environment that the script makes": (
        "source-relative",
        _GPU + "python -m venv e\nsource e/bin/activate\n/a/t\n",
    ),
    "arguments that are handed on": ("argument-unchecked", _GPU + 'python $1 "${@:2}"\n'),
    "an argument whose value is asked for": ("argument-unchecked", _GPU + "a=$1\n[[ $a != x ]] && exit 1\npython $a\n"),
    "a day of the year": ("pattern-in-command", _GPU + "python t.py --day $(date +%j) > o-%%j\n"),
    "loaders of a step": ("workers-beyond-cpus", _GPU + "python t.py --num_workers 4\n"),
    "two redirections": ("placeholder", _GPU + "sort <in>out\npython t.py <my_in >out\n"),
    "a path of the environment": ("variable-never-set", _GPU + "python $SCRATCH/t.py $MY_ROOT/x\n"),
    "threads of each rank": (
        "threads-too-many",
        _ONE + "#SBATCH --gres=gpu:2\nexport OMP_NUM_THREADS=2\ntorchrun --standalone --nproc_per_node=2 t.py\n",
    ),
    "a moment's step in a pipe": ("status-lost-in-pipe", _TWO + "srun hostname | sort\nsrun nvidia-smi | tee a\n"),
    "a copy from the folder of the work": ("copy-may-fail", _GPU + "cd $W\npython t.py\ncp out $W\ncd $W\n"),
    "a copy into another folder": ("copy-may-fail", _GPU + "cp ./driver $B\ncd $W\npython t.py\n"),
}


@pytest.mark.parametrize("name", _RIGHT)
def test_what_is_right_is_not_blamed(name: str) -> None:
    rule, text = _RIGHT[name]
    assert _named(text, rule) is None


_DOUBTFUL = {
    "a device of its own": ("gpus-per-task", _TWO + "#SBATCH --gpus-per-task=1\nsrun -K python x.py\n"),
    "a container": ("container-without-gpus", _GPU + "apptainer exec a.sif python x.py\n"),
    "ranks and GPUs": (
        "more-ranks-than-gpus",
        _TWO.replace("gpus-per-node=4", "gpus-per-node=2") + "srun -K python x.py\n",
    ),
    "a variable of an option that sbatch may have got": (
        "slurm-variable-unset",
        _ONE + "python x.py --g $SLURM_GPUS_PER_NODE\n",
    ),
    "conda": ("conda-not-set-up", _GPU + "conda activate a\npython x.py\n"),
    "a line that may be switched off": ("directive-misspelt", _ONE + "# SBATCH --gres=gpu:1\npython x.py\n"),
    "a path that begins with nothing": ("placeholder", _ONE + 'ROOT=""\ncd "${ROOT}/code"\npython t.py\n'),
    "a deepspeed of its own on each node": ("standalone-on-nodes", _NODES + "srun -K deepspeed t.py\n"),
    "an option that a plugin may have": ("directive-unknown", _ONE + "#SBATCH --gizmo-level=3\ndate\n"),
    "a program over several nodes": ("python-on-first-node", _TWO + "python x.py\n"),
    "a port of the program's own": ("port-missing", _TWO + _ADDRESS + "srun -K python x.py\n"),
    "a rank that a program may read": (
        "rank-exported-by-script",
        _TWO + "export RANK=$SLURM_PROCID\nsrun -K python x.py\n",
    ),
    "a variable that the shell may have": (
        "meeting-variable-unset",
        _NODES + "srun -K torchrun --nnodes=$WORLD_SIZE --nproc-per-node=4 x.py\n",
    ),
    "letters cut out of the node list": (
        "address-is-a-list",
        _TWO + "export MASTER_ADDR=${SLURM_NODELIST:0:5}${SLURM_NODELIST:6:3}\nsrun -K python x.py\n",
    ),
    "a node list that is cut at its first comma": (
        "address-is-a-list",
        _TWO + "export MASTER_ADDR=${SLURM_JOB_NODELIST%%,*}\nsrun -K python x.py\n",
    ),
    "flags out of a variable": (
        "nodes-disagree",
        _NODES + "srun -K $MORE torchrun --nnodes=4 --nproc-per-node=4 x.py\n",
    ),
}


@pytest.mark.parametrize("name", _DOUBTFUL)
def test_what_depends_on_something_unknown_says_so_and_is_weaker(name: str) -> None:
    rule, text = _DOUBTFUL[name]
    finding = _named(text, rule)
    assert finding is not None
    assert finding.severity not in {Severity.BREAKS, Severity.HANGS}
    assert not finding.is_certain
    assert f"(not known: {finding.unknown})" in finding.message


_WRONG = {
    "a mark that bash cannot read": ("style", "not-bash", _ONE + "A=<DIR>\npython t.py\n"),
    "a variable that no agent sets, not exported": (
        "fragile",
        "not-exported",
        _NODES + _ADDRESS + _PORT + "NCCL_DEBUG=INFO\nsrun -K torchrun --nproc-per-node=4 t.py\n",
    ),
    "localhost for ranks of mpirun": (
        "fragile",
        "address-is-loopback",
        _NODES + "export MASTER_ADDR=localhost\n" + _PORT + "mpirun -np 2 python t.py\n",
    ),
    "a comment and an empty line inside a command": (
        "breaks",
        "continuation-comment",
        _TWO + "srun --kill-on-bad-exit=1 \\\n  # --exclusive\n\n  --label python t.py\n",
    ),
    "conda behind CUDA's module": ("fragile", "conda-not-set-up", _GPU + "module load cuda/12\nconda activate x\n"),
    "a pipe in front of an echo": (
        "fragile",
        "status-lost-at-end",
        _GPU + "set -o pipefail\npython t.py | tee log | grep loss\necho done\n",
    ),
    "one process of mpirun": (
        "style",
        "one-process-many-gpus",
        _ONE + "#SBATCH --gres=gpu:2\nmpirun -np 1 python t.py\n",
    ),
    "a function that leaves its program in the background": (
        "breaks",
        "background-without-wait",
        _GPU + "run() { python t.py $1 & }\nwait\nrun 1\n",
    ),
    "the script's own folder in PYTHONPATH": (
        "fragile",
        "file-beside-script",
        _GPU + 'PYTHONPATH="$(dirname $0)/..":$PYTHONPATH python /a/t.py\n',
    ),
    "one CPU that is asked for": (
        "style",
        "one-cpu",
        _HEAD + "#SBATCH -N1 --gres=gpu:1 --cpus-per-task=1\npython train.py\n",
    ),
    "a step of the shell in a pipe": (
        "fragile",
        "status-lost-in-pipe",
        _NODES + _ADDRESS + 'srun -K bash -c "python t.py" | tee log\n',
    ),
    "GPUs by their numbers alone": (
        "style",
        "gpus-not-asked-for",
        _ONE + "#SBATCH -p long\nexport CUDA_VISIBLE_DEVICES=0\npython t.py\n",
    ),
    "an install in a container": (
        "fragile",
        "install-in-job",
        _GPU + "srun apptainer exec --nv i.sif pip install --user x\n",
    ),
    "an install through a variable": (
        "fragile",
        "install-in-job",
        _GPU + 'RUN="srun apptainer exec --nv"\n$RUN i.sif pip install --user x\npython t.py\n',
    ),
    "conda init beside ~/.bashrc": (
        "fragile",
        "conda-not-set-up",
        _GPU + "source ~/.bashrc\nconda init bash\nconda activate x\npython t.py\n",
    ),
    "results in a folder of a variable": (
        "fragile",
        "removed-after-copy",
        _GPU + "S=/scr/$USER\nO=$S/out\npython t.py\nrsync -a $O/ /home/me/out\nrm -rf $S/*\n",
    ),
    "a copy under a trap that only says so": (
        "fragile",
        "removed-after-copy",
        _GPU + "say() {\n  echo no\n}\ntrap say ERR\npython t.py\ncp -r /t/o /r\nrm -rf /t/o\n",
    ),
    "a moved file and its rest": ("fragile", "removed-after-copy", _GPU + "python t.py\nmv o.txt /r/\nrm -f o.txt\n"),
    # severity, rule, script
    "python in the background": ("breaks", "background-without-wait", _GPU + "python train.py &\n"),
    "a loop of programs": (
        "breaks",
        "background-without-wait",
        _GPU + "for i in 0 1; do\n  CUDA_VISIBLE_DEVICES=$i python train.py &\ndone\necho started\n",
    ),
    "a script in the background": ("breaks", "background-without-wait", _GPU + "bash run.sh > log 2>&1 &\n"),
    "flags in a variable": (
        "fragile",
        "srun-survivors",
        _TWO + _ADDRESS + 'SRUN_ARGS="--unbuffered --label"\nsrun $SRUN_ARGS python train.py\n',
    ),
    "flags in an array": (
        "fragile",
        "srun-survivors",
        _TWO + _ADDRESS + 'ARGS=(--unbuffered)\nARGS+=(--label)\nsrun "${ARGS[@]}" python train.py\n',
    ),
    "a command in a variable": (
        "breaks",
        "agents-on-every-task",
        _TWO + 'CMD="torchrun --nnodes=2 --nproc-per-node=4 x.py"\nsrun -K $CMD\n',
    ),
    "a command that eval starts": (
        "breaks",
        "agents-on-every-task",
        _TWO + 'CMD="srun -K torchrun --nnodes=2 --nproc-per-node=4 x.py"\neval "$CMD"\n',
    ),
    "a launcher in a variable, over two lines": (
        "breaks",
        "more-ranks-than-gpus",
        _GPU + 'L="torchrun \\\n  --nproc-per-node 8"\n$L x.py\n',
    ),
    "GPUs in all on one node": (
        "breaks",
        "more-ranks-than-gpus",
        _ONE + "#SBATCH --gpus=4\ntorchrun --nproc-per-node=8 x.py\n",
    ),
    "a step without a command": ("breaks", "step-without-command", _ONE + "srun --cpu-bind=v\npython x.py\n"),
    "minutes with a unit": ("breaks", "directive-value", _ONE + "#SBATCH --time=90min\ndate\n"),
    "letters for a time": ("breaks", "directive-value", _ONE + "#SBATCH --time=aa:bb\ndate\n"),
    "a number in letters": ("breaks", "directive-value", _ONE + "#SBATCH --nodes=two\ndate\n"),
    "gpus for gpu": ("breaks", "directive-value", _ONE + "#SBATCH --gres=gpus:4\ndate\n"),
    "a sign behind a letter": ("breaks", "directive-value", _ONE + "#SBATCH -c=4\ndate\n"),
    "a mail that Slurm does not send": ("breaks", "directive-value", _ONE + "#SBATCH --mail-type=DONE\ndate\n"),
    "a slip of the hand": ("breaks", "directive-misspelt", _ONE + "#SBATPH --gres=gpu:1\ndate\n"),
    "a letter too few": ("breaks", "directive-misspelt", _ONE + "#SBATH --gres=gpu:1\ndate\n"),
    "the first letter": ("breaks", "directive-misspelt", _ONE + "#BATCH --gres=gpu:1\ndate\n"),
    "another scheduler's option": ("fragile", "directive-unknown", _ONE + "#SBATCH --email=a@b.c\ndate\n"),
    "an array beyond its list": (
        "breaks",
        "array-beyond-list",
        _ONE + '#SBATCH --array=0-9\nA=(1 2 3)\npython x.py "${A[$SLURM_ARRAY_TASK_ID]}"\n',
    ),
    "options on a line of their own": ("breaks", "options-alone", _ONE + "python x.py --a 1\n    --b 2\n"),
    "the arguments on a line of their own": (
        "breaks",
        "options-alone",
        _ONE + "srun -K -c 4 python x.py --a 1\n    ${@}\n",
    ),
    "one program in the background": ("fragile", "wait-forgets-status", _GPU + "python a.py &\nwait\n"),
    "options behind a comment": (
        "breaks",
        "continuation-comment",
        _ONE + "python x.py --a 1 \\\n    # --c 3 \\\n    --b 2\n",
    ),
    "options behind an empty line": (
        "breaks",
        "continuation-comment",
        _ONE + "python x.py --a 1 \\\n\n    --b 2\n",
    ),
    "a byte order mark": ("breaks", "no-interpreter", "\ufeff" + _ONE + "date\n"),
    "a torchrun that waits for others": (
        "hangs",
        "agent-on-first-node",
        _NODES + "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-endpoint=$H:1 x.py\n",
    ),
    "a torchrun of one node": (
        "slow",
        "agent-on-first-node",
        _NODES + "torchrun --nproc-per-node=4 x.py\n",
    ),
    "pip in a job": ("fragile", "install-in-job", _GPU + "pip install -r requirements.txt\npython x.py\n"),
    "python -m pip in a job": ("fragile", "install-in-job", _GPU + "python -m pip install torch\npython x.py\n"),
    "a status behind python": ("fragile", "status-lost-at-end", _GPU + "python train.py\nnvidia-smi\n"),
    "a status behind a container": (
        "fragile",
        "status-lost-at-end",
        _GPU + "singularity exec --nv a.sif ./train\ndate\n",
    ),
    "functions and ssh in the background, and no wait": (
        "breaks",
        "background-without-wait",
        _NODES + 'go() { python -m torch.distributed.launch t.py; }\ngo &\nssh n2 "$(typeset -f go); go" &\n',
    ),
    "ssh with a function that trains": (
        "fragile",
        "ssh-to-nodes",
        _NODES + 'go() { python t.py; }\ngo &\nssh n2 "$(typeset -f go); go" &\nwait\n',
    ),
    "a status behind eval": (
        "fragile",
        "status-lost-at-end",
        _GPU + 'C="python t.py"\nC=$(echo "$C" | tr -s " ")\neval "$C"\nset +x\n',
    ),
    "a status that only the last wait gives": (
        "fragile",
        "status-lost-at-end",
        _GPU + "python a.py & pids[0]=$!\npython b.py & pids[1]=$!\nfor pid in ${pids[*]}; do\n  wait $pid\ndone\n",
    ),
    "tasks that nobody asked for": (
        "style",
        "slurm-variable-unset",
        _GPU + "mpirun -np $SLURM_NTASKS python t.py\n",
    ),
    "few CPUs for many GPUs": (
        "style",
        "one-cpu",
        _HEAD + "#SBATCH -N1 -n1 -c4\n#SBATCH --gpus=8\npython t.py\n",
    ),
    "one CPU for each of two launchers": (
        "style",
        "one-cpu",
        _HEAD + "#SBATCH -N2 -n2\n#SBATCH --gpus-per-task=4\nsrun -K torchrun --nnodes=2 t.py\n",
    ),
    "an exported command in the task's shell": (
        "style",
        "srun-cpus-per-task",
        _TWO + "#SBATCH -c 8\nexport CMD='python t.py'\nsrun -K bash -c '$CMD --rank $SLURM_PROCID'\n",
    ),
    "clear where an error ends the job": ("fragile", "terminal-in-batch", _ONE + "set -e\nclear\npython t.py\n"),
    "a line that another program fills in": (
        "style",
        "template",
        "#!/bin/bash\n${PARTITION}\n#SBATCH --nodes=${NODES}\n#SBATCH --time=9\npython t.py\n",
    ),
    "a blank that a person fills": (
        "fragile",
        "status-lost-at-end",
        _GPU.replace("\n", "\n#SBATCH --mail-user=<EMAIL>\n#SBATCH -A [budget code] # <see the docs>\n", 1)
        + "python t.py\necho done\n",
    ),
    "directives that hold what the script sets": (
        "breaks",
        "directive-after-command",
        "#!/bin/bash\nN=4\nT=9\n#SBATCH --nodes=$N\n#SBATCH --time=$T\npython t.py\n",
    ),
    "directives that hold what Slurm sets": (
        "fragile",
        "directive-expands",
        _ONE + "#SBATCH -o $SLURM_JOB_ID\n#SBATCH -e $SLURM_JOB_NAME\npython t.py\n",
    ),
    "directives below a blank that a program fills": (
        "style",
        "template",
        "#!/bin/bash\n#SBATCH --nodes=1\n$MAIL_LINES\n#SBATCH --gres=gpu:1\n#SBATCH --time=9\npython t.py\n",
    ),
    "tasks of one node as its CPUs": (
        "style",
        "tasks-as-cpus",
        "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=4\n#SBATCH --time=9\npython t.py\n",
    ),
    "tasks of one node that nothing starts": (
        "style",
        "tasks-as-cpus",
        _ONE + "#SBATCH --ntasks-per-node=4\ntorchrun --nproc-per-node=4 t.py\n",
    ),
    "other nodes than the job has": ("fragile", "size-told-differs", _TWO + "srun -K python t.py --num_nodes=4\n"),
    "devices that are not the tasks": ("fragile", "size-told-differs", _TWO + "srun -K python t.py --gpus 2\n"),
    "as many CPUs as GPUs": ("style", "one-cpu", _TWO + "srun -K python t.py\n"),
    "an archive that is not asked": (
        "fragile",
        "copy-may-fail",
        _ONE + "tar xf d.tar -C $DATA\npython t.py --data $DATA/d\n",
    ),
    "activate of nobody": (
        "fragile",
        "conda-not-set-up",
        _ONE + "module load cuda/12\nsource activate a\npython t.py\n",
    ),
    "settings of a login alone": ("style", "bashrc-in-job", _ONE + "source ~/.bashrc\npython t.py\n"),
    "a shell of an argument": ("fragile", "step-without-command", _TWO + "srun -K bash $1\n"),
    "a port that deepspeed does not read": (
        "fragile",
        "variable-unread",
        _GPU + "export MASTER_PORT=1234\ndeepspeed t.py\n",
    ),
    "GPUs of nobody knows which nodes": (
        "fragile",
        "gpus-in-all",
        "#!/bin/bash\n#SBATCH --gpus=2\n#SBATCH --time=9\ntorchrun --nproc-per-node=2 t.py\n",
    ),
    "a copy by every task": ("fragile", "same-work-in-every-task", _TWO + "srun rsync -a d /tmp/d\n"),
    "a program that is told one GPU of eight": (
        "slow",
        "size-told-differs",
        _ONE + "#SBATCH --gres=gpu:8\nN=1\npython t.py --gpus $N\n",
    ),
    "one visible GPU of two, in a loop": (
        "slow",
        "visible-devices-literal",
        _ONE + "#SBATCH --gres=gpu:2\nfor i in 1 2; do CUDA_VISIBLE_DEVICES=0 python t.py $i; done\n",
    ),
    "a step that installs": ("fragile", "install-in-job", _TWO + "srun -K pip install -e .\nsrun -K python t.py\n"),
    "two nodes, and torchrun for one": (
        "breaks",
        "standalone-on-nodes",
        _NODES + "srun -K torchrun --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 t.py\n",
    ),
    "ranks with a URL to meet at": (
        "fragile",
        "srun-survivors",
        _TWO + "srun python -u main.py --dist_url tcp://$HEAD:40000\n",
    ),
    "a launcher that no table names": (
        "style",
        "srun-cpus-per-task",
        _NODES + '#SBATCH -c 8\nsrun -K bash -c "composer -n 4 --node_rank \\$SLURM_NODEID t.py"\n',
    ),
    "a folder with the job's number": ("style", "output-folder", _ONE + "#SBATCH --output=logs/%j/out\ndate\n"),
    "a setting of wandb without export": (
        "fragile",
        "not-exported",
        _GPU + "WANDB_MODE=offline\npython t.py\n",
    ),
    "exit behind a message": (
        "fragile",
        "exit-without-status",
        _ONE + "if [ $# -ne 3 ]; then\n  echo 'Illegal number of parameters'\n  exit\nfi\ndate\n",
    ),
    "a port that may be the system's": (
        "fragile",
        "port-random",
        _ONE + "#SBATCH --gres=gpu:2\ntorchrun --nproc_per_node=2 --master_port=$RANDOM t.py\n",
    ),
    "a variable set as in csh": ("fragile", "assignment-with-blanks", _GPU + "set PYTHONPATH=./\npython t.py\n"),
    "all Pythons of the node killed": ("fragile", "kill-by-name", _GPU + "pkill -9 python\npython t.py\n"),
    "a server for everybody": ("fragile", "server-open", _GPU + "vllm serve m --host 0.0.0.0\n"),
    "a status behind a script whose name a variable holds": (
        "fragile",
        "status-lost-at-end",
        _GPU + "S=run.sh\ncd $1\n./$S\ndeactivate\n",
    ),
    "four GPUs that are told one CPU": (
        "style",
        "one-cpu",
        _HEAD + "#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=1\n#SBATCH --gres=gpu:A100:4\npython t.py\n",
    ),
    "an environment beside the submission": (
        "style",
        "source-relative",
        _GPU + "source .venv/bin/activate\npython /a/t.py\n",
    ),
    "GPUs in all on one node, and one process": (
        "style",
        "one-process-many-gpus",
        _HEAD + "#SBATCH --gpus=2 -c 8\npython t.py\n",
    ),
    "a drawn port in an endpoint": (
        "fragile",
        "port-random",
        _GPU + "p=$RANDOM\ntorchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:$p t.py\n",
    ),
    "an address in numbers": (
        "fragile",
        "address-literal",
        _NODES + "srun -K torchrun --nnodes 2 --master_addr 10.25.193.83 --node_rank $1 t.py\n",
    ),
    "an array whose number is overwritten": (
        "breaks",
        "array-beyond-list",
        _GPU + "#SBATCH --array=1-15\nSLURM_ARRAY_TASK_ID=13\npython t.py --seed $SLURM_ARRAY_TASK_ID\n",
    ),
    "two ranks of a node of four GPUs": (
        "slow",
        "gpus-idle",
        _TWO.replace("ntasks-per-node=4", "ntasks-per-node=2") + "srun -K python t.py\n",
    ),
    "a port beside torchrun's own": (
        "fragile",
        "port-fixed",
        _GPU + "export MASTER_PORT=1234\ntorchrun --standalone t.py\npython t.py\n",
    ),
    "conda init in the job": (
        "fragile",
        "conda-not-set-up",
        _GPU + "module load anaconda3\nconda init\nconda activate x\npython t.py\n",
    ),
    "a misspelt variable of NCCL": (
        "fragile",
        "variable-unread",
        _TWO + "export NCLL_BLOCKING_WAIT=1\nsrun -K python t.py\n",
    ),
    "a status behind a program that no list names": (
        "fragile",
        "status-lost-at-end",
        _GPU + "nnUNetv2_train 1 2d 0\necho done\n",
    ),
    "a status behind exit 0": ("fragile", "status-lost-at-end", _GPU + "python train.py\nexit 0\n"),
    "a status that was waited for": (
        "fragile",
        "status-lost-at-end",
        _GPU + "python a.py &\npid=$!\nwait $pid\nconda deactivate\n",
    ),
    "the statuses of a loop": ("fragile", "status-lost-at-end", _GPU + "for i in 1 2; do python a.py $i; done\n"),
    "the status of the first of two programs": ("fragile", "status-lost-at-end", _GPU + "python a.py\npython b.py\n"),
    "a status in a chain, and an echo": (
        "fragile",
        "status-lost-at-end",
        _GPU + "nvidia-smi && python train.py\nsleep 3\n",
    ),
    "a wait for ssh and eval in a loop": (
        "fragile",
        "wait-forgets-status",
        _NODES + 'for n in $HOSTS; do C="python t.py --node_rank=$i"; eval $C & ssh $n "$C" & done\nwait\n',
    ),
    "ssh with a command in a variable": (
        "fragile",
        "ssh-to-nodes",
        _NODES + 'RUN="torchrun t.py"\nfor n in $HOSTS; do ssh $n "cd /x; $RUN" & done\nwait\n',
    ),
    "a rank in a variable of the step": (
        "breaks",
        "task-variable-too-early",
        _TWO + 'CMD="python t.py --rank $SLURM_PROCID"\nsrun -K bash -c "$CMD"\n',
    ),
    "a rank in an array of the step": (
        "breaks",
        "task-variable-too-early",
        _NODES + 'A=(--nnodes=2 --node_rank "$SLURM_NODEID")\nsrun -K torchrun "${A[@]}" t.py\n',
    ),
    "the CPUs of a step that runs a script": (
        "style",
        "srun-cpus-per-task",
        _TWO + "#SBATCH -c 8\nsrun -K bash run.sh\n",
    ),
    "Ray on one CPU": (
        "style",
        "srun-cpus-per-task",
        _NODES + "#SBATCH -c 8\nsrun -N1 -n1 ray start --head --block &\nsleep 9\npython t.py\n",
    ),
    "Ray's port": (
        "fragile",
        "port-fixed",
        _GPU + "port=6379\nsrun -c4 ray start --head --port=$port --block &\nsleep 9\npython t.py\n",
    ),
    "a path under set -u": (
        "fragile",
        "unset-under-nounset",
        _ONE + "set -o nounset\nexport LD_LIBRARY_PATH=/a:${LD_LIBRARY_PATH}\ndate\n",
    ),
    "torch's own port": ("fragile", "port-fixed", _GPU + "torchrun --nproc_per_node=1 t.py\n"),
    "a port that torchrun does not read": (
        "fragile",
        "port-fixed",
        _GPU + "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 9999))\ntorchrun --nproc_per_node=1 t.py\n",
    ),
    "vLLM on one of four GPUs": (
        "slow",
        "one-process-many-gpus",
        _ONE + "#SBATCH --gres=gpu:4\nvllm serve model\n",
    ),
    "GPUs of a node, and one process": (
        "style",
        "one-process-many-gpus",
        _ONE + "#SBATCH --gpus-per-node=8\nsrun -n1 -K python t.py\n",
    ),
    "the first letters of a node list": (
        "fragile",
        "address-is-a-list",
        _ONE + "head=${SLURM_NODELIST:0:9}\npython t.py --url tcp://$head:4000\n",
    ),
    "a folder made too late, by a variable": (
        "style",
        "output-folder",
        _ONE + "#SBATCH --output=/data/p/logs/%j\nTOP=/data/p\nmkdir -p $TOP/logs\ndate\n",
    ),
    "setup.py in the job": ("fragile", "install-in-job", _GPU + "python setup.py develop\npython t.py\n"),
    "a status behind time": ("fragile", "status-lost-at-end", _GPU + "time python train.py\nsleep 3\n"),
    "a status behind a group in a pipe": (
        "fragile",
        "status-lost-in-pipe",
        _ONE + "( date; srun -K python b.py ) |& tee log\n",
    ),
    "a server and a sleep": (
        "fragile",
        "sleep-for-order",
        _GPU + "vllm serve m &\nsleep 60\npython client.py\n",
    ),
    "a notebook for all": (
        "fragile",
        "notebook-open",
        _GPU + "jupyter lab --ip=0.0.0.0 --NotebookApp.token=''\n",
    ),
    "errors in front of the file": ("fragile", "errors-to-terminal", _GPU + "python x.py 2>&1 > all.log\n"),
    "return in a script": ("fragile", "return-in-script", _GPU + "cd a || return\npython x.py\n"),
    "one process for four GPUs": (
        "style",
        "one-process-many-gpus",
        _GPU.replace("gpu:1", "gpu:4") + "python x.py\n",
    ),
    "torchrun without a number": (
        "slow",
        "one-process-many-gpus",
        _GPU.replace("gpu:1", "gpu:4") + "torchrun x.py\n",
    ),
    "threads by default": (
        "slow",
        "threads-too-many",
        _HEAD + "#SBATCH --nodes=1\n#SBATCH --gpus=1\nexport OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-4}\npython x.py\n",
    ),
    "an option as a feature": ("breaks", "directive-value", _ONE + "#SBATCH --constraint=ntasks-per-node=8\ndate\n"),
    "a number in the name of the job": ("style", "directive-expands", _ONE + "#SBATCH --job-name=llama_%j\ndate\n"),
    "a key that bash does not reach": ("fragile", "secret-in-script", _ONE + ")\nHF_TOKEN=0123456789abcdef\n"),
    "a directive that bash does not reach": ("breaks", "directive-after-command", _ONE + ")\n#SBATCH -G 1\ndate\n"),
    "pip for a program of a variable": ("fragile", "install-in-job", _GPU + "pip install torch\n$RUN t.py\n"),
    "a launcher with unread options": ("fragile", "srun-survivors", _NODES + _ADDRESS + "srun deepspeed $A t.py\n"),
    "a GPU with one CPU": ("style", "one-cpu", _HEAD + "#SBATCH --nodes=1\n#SBATCH --gpus=1\npython train.py\n"),
    "csh": ("breaks", "directive-unknown", "#!/bin/csh\n#SBATCH --cpu-per-task=4\nset x = (1 2)\n"),
    "a number of ranks in a variable": (
        "breaks",
        "more-ranks-than-gpus",
        _NODES + "N=8\nsrun -K torchrun --nproc_per_node=$N t.py\n",
    ),
    "a number of nodes in a variable": (
        "hangs",
        "nodes-disagree",
        _NODES + "N=4\nsrun -K torchrun --nnodes=$N --nproc_per_node=4 t.py\n",
    ),
    "more names than nodes": ("slow", "nodes-pinned", _ONE + "#SBATCH -w n[1-2]\ndate\n"),
    "a folder that another job removes": ("fragile", "temporary-path-shared", _GPU + "D=/tmp/x\n./t\nrm -rf $D\n"),
    "a function of a trap": (
        "fragile",
        "step-in-exit-trap",
        _GPU + "save() {\n  srun cp a b\n}\ntrap save EXIT\nsrun -K python t.py\n",
    ),
    "a pattern in an argument": ("fragile", "pattern-in-command", _GPU + "python t.py --out log-%j\n"),
    "loaders of two ranks": (
        "slow",
        "workers-beyond-cpus",
        _ONE + "#SBATCH --gres=gpu:2\ntorchrun --standalone --nproc_per_node=2 t.py --num_workers=4\n",
    ),
    "threads of two ranks": (
        "slow",
        "threads-too-many",
        _ONE + "#SBATCH --gres=gpu:2\nexport OMP_NUM_THREADS=4\ntorchrun --standalone --nproc_per_node=2 t.py\n",
    ),
    "a port in an address": ("fragile", "port-fixed", _GPU + "srun python t.py --dist-url tcp://$H:40000\n"),
    "a port by default": ("fragile", "port-fixed", _GPU + "P=${MASTER_PORT:-40000}\nsrun python t.py --port $P\n"),
    "a path of conda in a comment": (
        "fragile",
        "conda-not-set-up",
        _GPU + "# source ~/.bash_profile\nmodule purge\nsource activate x\npython t.py\n",
    ),
    "a program of a step in a pipe": ("fragile", "status-lost-in-pipe", _TWO + "srun -K ./solve | tee log\n"),
    "an installation behind the work": (
        "fragile",
        "status-lost-at-end",
        _GPU + "python t.py\npip install x\necho done\n",
    ),
    "an argument in quotes": ("fragile", "argument-unchecked", _GPU + 'python t.py -n "$1"\n'),
    "a copy into the folder of the work": (
        "fragile",
        "copy-may-fail",
        _GPU + "cp ./driver $SLURM_TMPDIR\ncd $SLURM_TMPDIR\n./driver\n",
    ),
}


@pytest.mark.parametrize("name", _WRONG)
def test_what_is_wrong_is_found_however_it_is_written(name: str) -> None:
    severity, rule, text = _WRONG[name]
    finding = _named(text, rule)
    assert finding is not None, [each.rule for each in _findings(text)]
    assert finding.severity == severity


@pytest.mark.parametrize(
    "mark",
    [
        "#SBATCH --nodes={{ nodes }}",
        "#SBATCH --job-name={name}",
        "#SBATCH -n @NTASKS@",
        "#SBATCH --time=__TIME__",
        "#SBATCH -t __walltime__",
        "#SBATCH -n %(np)02d",
        "#SBATCH -n $PY_CODE N$",
        "#SBATCH -A !TBG_account",
        "<GPU_CONFIG>",
        "#SBATCH --account=g_account_g\n#SBATCH --job-name=g_job_name_g\n#SBATCH --mem=g_mem_g",
    ],
)
def test_a_template_is_recognised_and_not_judged(mark: str) -> None:
    found = _findings(f"#!/bin/bash\n{mark}\n#SBATCH --time=90min\npython x.py &\n")
    assert [(each.rule, each.severity) for each in found] == [("template", Severity.STYLE)]


def test_a_file_that_begins_as_python_does_is_read_as_python() -> None:
    assert source_of("a.sh", "import os\nos.system('srun hostname')\n").kind is FileKind.PYTHON
    assert source_of("a.sh", "import -window root a.png\nsrun hostname\n").kind is FileKind.BATCH


def test_late_directives_are_one_finding() -> None:
    text = _ONE + "date\n" + "#SBATCH --gres=gpu:1\n" * 3 + "#SBATCH --mem=4G\ndate\n"
    late = [each for each in _findings(text) if each.rule == "directive-after-command"]
    assert [(each.severity, each.place.line) for each in late] == [(Severity.BREAKS, 6)]
    assert "and 3 more" in late[0].message


def test_a_late_name_of_the_job_breaks_nothing() -> None:
    finding = _named(_ONE + "date\n#SBATCH --job-name=a\n", "directive-after-command")
    assert finding is not None
    assert finding.severity is Severity.FRAGILE


@pytest.mark.parametrize(
    ("option", "severity"),
    [
        ("--output=logs/%j.out", Severity.STYLE),
        ("--chdir=logs", Severity.STYLE),
        ("--chdir=logs --error=/abs/err", Severity.STYLE),
        ("--chdir=logs --output=/abs/%j.out --error=err", Severity.STYLE),
        ("--chdir=logs --output=/abs/logs/%j.out", Severity.STYLE),
        ("--chdir=logs --output=/abs/%j.out", Severity.FRAGILE),
    ],
)
def test_a_folder_is_looked_for_beside_the_script(option: str, severity: Severity, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(_ONE + f"#SBATCH {option}\ndate\n")
    found = _findings(script.read_text(), str(script))
    assert [(each.rule, each.severity) for each in found] == [("output-folder", severity)]
    (tmp_path / "logs").mkdir()
    assert _rules_of(script) == []


def _rules_of(script: Path) -> list[str]:
    return [finding.rule for finding in _findings(script.read_text(), str(script))]


@pytest.mark.parametrize("gpus", [2, 4])
def test_a_fixed_port_is_a_matter_of_style_where_the_job_has_four_gpus_of_a_node(gpus: int) -> None:
    found = _named(_ONE + f"#SBATCH --gres=gpu:{gpus}\nexport MASTER_PORT=29500\nsrun -K python t.py\n", "port-fixed")
    assert found is not None
    assert found.severity is (Severity.STYLE if gpus == 4 else Severity.FRAGILE)


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        ("--time=30", "style"),
        ("--time=31", "fragile"),
        ("--time=31\njupyter lab", "style"),
        ("--time=31\njupyter nbconvert", "fragile"),
    ],
)
def test_a_lost_log_of_a_try_is_a_matter_of_style(lines: str, severity: str) -> None:
    found = _named(f"#!/bin/bash\n#SBATCH -N1 -o a.log {lines}\n./t 1\n", "output-of-every-run")
    assert found is not None
    assert found.severity == severity


@pytest.mark.parametrize("line", ["((n++))", "grep -c nan log", "cp -r out results", "date | grep x"])
def test_the_hint_spares_scripts_that_count_ask_or_save(line: str) -> None:
    found = _named(_ONE + f"./t 1\n{line}\necho $n\n", "status-lost-at-end")
    assert found is not None
    assert "set -e ends" in found.instead


@pytest.mark.parametrize(("line", "severity"), [("--ntasks=1", "fragile"), ("--ntasks=2", "breaks")])
def test_a_misspelt_default_breaks_nothing(line: str, severity: str) -> None:
    found = _named(f"#!/bin/bash\n#SBATCH --time=10\n#SBTACH {line}\ndate\n", "directive-misspelt")
    assert found is not None
    assert found.severity == severity


def test_programs_that_meet_are_said_to_wait_for_the_one_that_fails() -> None:
    loop = "for i in 0 1; do\n  srun -N1 -n1 env MACHINE_RANK=$i bash t.sh &\ndone\nwait\n"
    found = _named(_NODES + loop, "wait-forgets-status")
    assert found is not None
    assert "the others wait for it" in found.message


@pytest.mark.parametrize(
    ("rule", "lines", "hint"),
    [
        ("not-bash", "if x; then\n  DATA=<my data dir>\nfi\n", "<my data dir>"),
        ("not-bash", "cat <<E > )\nE\n", "Close"),
        ("directive-unknown", "#SBATCH --nvmps\ndate\n", "sbatch --help"),
    ],
)
def test_a_hint_leads_to_what_is_meant(rule: str, lines: str, hint: str) -> None:
    found = _named(_ONE + lines, rule)
    assert found is not None
    assert hint in found.instead


@pytest.mark.parametrize(
    ("program", "finding"),
    [
        ("import torch\ntorch.nn.Linear(2, 2).cuda()\n", "certain"),
        ("import torch\nimport own\nown.net().cuda()\n", "certain"),
        ("import torch\nimport parts\n", "open"),
        ("import torch\nimport own, shares\n", ""),
        ("import torch\nmodel = torch.nn.DataParallel(model)\n", ""),
        ("from transformers import Trainer\n", ""),
    ],
)
def test_one_process_of_several_gpus_is_known_by_its_program(program: str, finding: str, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(program)
    (tmp_path / "own.py").touch()
    (tmp_path / "parts").mkdir()
    (tmp_path / "shares.py").write_text("import t\nmodel = DataParallel(model)\n")
    script = tmp_path / "job.sh"
    found = _findings(_ONE + "#SBATCH --gres=gpu:4\npython t.py\n", str(script))
    lone = [each for each in found if each.rule == "one-process-many-gpus"]
    assert ["certain" if each.is_certain else "open" for each in lone] == ([finding] if finding else [])


@pytest.mark.parametrize(
    ("words", "program", "severities"),
    [
        ("", "loader = DataLoader(data, num_workers=8)\n", {"workers-beyond-cpus": "slow", "tasks-as-cpus": "style"}),
        ("", 'add_argument("--workers", default=8)\n', {"workers-beyond-cpus": "slow", "tasks-as-cpus": "style"}),
        ("", "loader = DataLoader(data)  # num_workers=8\n", {"tasks-as-cpus": "style"}),
        ("", "import lightning as L\n", {"tasks-as-cpus": "fragile"}),
        (" --workers $N", "loader = DataLoader(data, num_workers=8)\n", {"tasks-as-cpus": "style"}),
    ],
)
def test_what_a_program_asks_of_cpus_and_tasks_is_read(
    words: str, program: str, severities: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "t.py").write_text(program)
    found = _findings(_HEAD + f"#SBATCH -N1 -n2 --gpus=1\npython t.py{words}\n", str(tmp_path / "job.sh"))
    rules = {"workers-beyond-cpus", "tasks-as-cpus"}
    assert {each.rule: each.severity.value for each in found if each.rule in rules} == severities
