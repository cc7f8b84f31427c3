"""Each condition of a rule on batch scripts, by the shortest script that it decides on."""

from __future__ import annotations

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of

_HEAD = "#!/bin/bash\n#SBATCH --time=60\n"
_ONE = _HEAD + "#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n"
_GPU = _ONE + "#SBATCH --gres=gpu:1\n"
_FOUR = _HEAD + "#SBATCH --nodes=1\n#SBATCH --gpus-per-node=4\n"
_TWO = _HEAD + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n"
_NODES = _HEAD + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
_RUN = "srun -K python t.py\n"

_FOUND = {
    # agents
    "rendezvous-id-fixed": (
        _NODES + "srun torchrun --rdzv_id 7 t.py\n",
        _NODES + "srun bash -c 'torchrun --rdzv_id $RANDOM t.py'\n",
    ),
    "node-rank-missing": (
        _NODES + "srun torchrun --nnodes 2 --master_addr a t.py\n",
        _NODES + "srun torchrun --nnodes=$N --master-addr=a t.py\n",
    ),
    "machine-rank-missing": (_NODES + "srun accelerate launch --num_machines 2 t.py\n",),
    # the shell
    "errors-to-terminal": (_ONE + "date 2>&1 > log\n", _ONE + "date 2>&1 >> $L\n"),
    "continuation-broken": (_ONE + "date \\ \n-u\n", _ONE + "date \\\t\nls\n"),
    "options-alone": (
        _ONE + "date\n--utc\n",
        _ONE + 'srun python t.py\n"$@"\n',
        _ONE + "srun ./t\n$@\n",
        _ONE + "torchrun t.py\n${@}\n",
    ),
    "continuation-comment": (
        _ONE + "date \\\n# x\n--utc\n",
        _ONE + "date \\\n\n--utc\n",
        _ONE + "date \\\n# x\n# y\n\n-u\n",
        _ONE + "srun -n1 \\\n# x\n./t\n",
    ),
    "assignment-with-blanks": (_ONE + "A = 1\n", _ONE + "set A=1\n", _ONE + "export A = 1\n"),
    "sleep-for-order": (
        _GPU + "vllm serve m &\nsleep 60\npython t.py\n",
        _TWO + "srun bash -c 'if true; then date; fi; sleep $SLURM_LOCALID; python t.py'\n",
        _TWO + "srun bash -c 'sleep $LOCAL_RANK; python t.py'\n",
    ),
    "not-bash": (
        _ONE + "if x; then\n",
        _ONE + "f() { shopt -s extglob; }\nls !(a)\n",
        _ONE + "true && shopt -s extglob\nls !(a)\n",
        _ONE + "if x; then shopt -s extglob; fi\nls !(a)\n",
        _ONE + "shopt -s nullglob\nls !(a)\n",
        _ONE + "ls !(a)\nshopt -s extglob\n",
    ),
    # variables
    "nccl-ib-timeout": (
        _TWO + "export NCCL_IB_TIMEOUT=24\n" + _RUN,
        _TWO + "export NCCL_IB_TIMEOUT=0\n" + _RUN,
        _TWO + "NCCL_IB_TIMEOUT=24 " + _RUN,
    ),
    "debug-switch-left-on": (
        _GPU + "export CUDA_LAUNCH_BLOCKING=1\npython t.py\n",
        _GPU + "export TORCH_DISTRIBUTED_DEBUG=DETAIL\npython t.py\n",
        _GPU + "TORCH_DISTRIBUTED_DEBUG=DETAIL python t.py\n",
    ),
    "variable-unread": (_GPU + "export NCLL_DEBUG=INFO\npython t.py\n",),
    "fabric-off": (_TWO + "export NCCL_IB_DISABLE=1\n" + _RUN, _FOUR + "export NCCL_P2P_DISABLE=1\npython t.py\n"),
    "slurm-variable-misspelt": (_TWO + "srun -K python t.py $SLURM_NTAKS\n",),
    "slurm-variable-unset": (
        _HEAD + "#SBATCH --nodes=1\nsrun -K python t.py $SLURM_CPUS_PER_TASK\n",
        _HEAD + "#SBATCH --nodes=2\nsrun -K python t.py ${SLURM_NTASKS:-3}\n",
    ),
    "not-exported": (
        _GPU + "NCCL_DEBUG=INFO\npython t.py\n",
        _ONE + "CUDA_VISIBLE_DEVICES=1\npython t.py\n",
        _GPU + "MASTER_PORT=1\npython t.py\n",
    ),
    # the header
    "no-directives": ("#!/bin/bash\nsrun hostname\n",),
    "export-none-reaches-srun": (
        _HEAD + "#SBATCH --nodes=1 --export=NONE\nexport A=1\n" + _RUN,
        _HEAD + "#SBATCH --nodes=1 --export=NIL\nexport A=1\n" + _RUN,
    ),
    "export-drops-environment": (
        _HEAD + "#SBATCH --nodes=1 --export=A=1\n" + _RUN,
        _TWO + "srun -K --export=A=1 python t.py\n",
    ),
    "directive-expands": (
        _ONE + "#SBATCH --job-name=$A\ndate\n",
        _ONE + "#SBATCH -o $A/x\ndate\n",
        _ONE + "#SBATCH -J %j\ndate\n",
    ),
    "gpus-of-node-twice": (_ONE + "#SBATCH --gres=gpu --gpus-per-node=2\npython t.py\n",),
    "memory-in-megabytes": (_ONE + "#SBATCH --mem=511\ndate\n", _ONE + "#SBATCH --mem-per-cpu=255\ndate\n"),
    "output-of-array": (
        _HEAD + "#SBATCH -o %A.out\npython t.py $SLURM_ARRAY_TASK_ID\n",
        _ONE + "#SBATCH --array=0-3 -o a.out\npython t.py $SLURM_ARRAY_TASK_ID\n",
        _ONE + "#SBATCH --array=0-3 -e a.err\npython t.py $SLURM_ARRAY_TASK_ID\n",
    ),
    "output-of-every-run": (_ONE + "#SBATCH -o a.out\ndate\n",),
    "requeue-overwrites": (_ONE + "#SBATCH --requeue\ndate\n", _ONE + "#SBATCH --requeue -o a.%j\ndate\n"),
    "pattern-in-command": (_GPU + "python t.py --log run-%j\n", _GPU + "python t.py > run-%j.log\n"),
    "nodes-pinned": (_ONE + "#SBATCH --nodelist=n[1-2]\ndate\n", _ONE + "#SBATCH -w n1\ndate\n"),
    "tasks-without-nodes": (
        _HEAD + "#SBATCH --ntasks=8 --gpus-per-node=4\n" + _RUN,
        _HEAD + "#SBATCH --nodes=2 --ntasks=8 --gpus-per-node=4\n" + _RUN,
    ),
    "tasks-of-node-unused": (
        _HEAD + "#SBATCH --nodes=4 --ntasks=2\n" + _RUN,
        _HEAD + "#SBATCH --ntasks=2 --ntasks-per-node=4\n" + _RUN,
        _TWO + "srun -n 2 --ntasks-per-node=4 python t.py\n",
    ),
    # programs
    "kill-by-name": (
        _GPU + "pkill python\npython t.py\n",
        _GPU + "killall -u me\npython t.py\n",
        _GPU + "ps ax | grep t.py | xargs kill\npython t.py\n",
        _GPU + "kill $(lsof -ti :8000)\npython t.py\n",
    ),
    "server-open": (_GPU + "vllm serve m --host 0.0.0.0\n", _GPU + "python -m gradio --host=0.0.0.0\n"),
    "meeting-variable-unset": (_TWO + "srun -K python t.py --addr $MASTER_ADDR\n",),
    "container-without-gpus": (
        _GPU + "apptainer exec i.sif python t.py\n",
        _GPU + "singularity exec i.sif torchrun t.py\n",
    ),
    "bashrc-in-job": (_GPU + "source ~/.bashrc\npython t.py\n", _GPU + ". ~/.bash_profile\npython t.py\n"),
    "conda-under-nounset": (
        _GPU + "set -u\nconda activate x\npython t.py\n",
        _GPU + "set -eo nounset\nconda activate x\npython t.py\n",
        _GPU + "set +u\nset -euo pipefail\nsource activate x\npython t.py\n",
    ),
    "install-in-job": (_TWO + "srun -K bash -c 'pip install x; python t.py'\n", _GPU + "pip install x\npython t.py\n"),
    "one-process-many-gpus": (_FOUR + "vllm serve m\n",),
    "workers-beyond-cpus": (_GPU + "python t.py --num_workers 5\n", _GPU + "python t.py --num_workers=5\n"),
    "srun-cpus-per-task": (_GPU + "srun -K python t.py\n", _GPU + "srun -K torchrun t.py\n"),
    "port-fixed": (
        _GPU + "torchrun --master_port 29501 t.py\n",
        _GPU + "torchrun --rdzv_endpoint a:29501 t.py\n",
        _GPU + "export MASTER_PORT=29500\npython t.py\n",
    ),
    "address-by-ip-guess": (
        _TWO + "export MASTER_ADDR=$(hostname -I)\n" + _RUN,
        _TWO + "export MASTER_ADDR=$(hostname -i)\n" + _RUN,
    ),
    "signal-to-steps-only": (_ONE + "#SBATCH --signal=USR1@60\ntrap save USR1\n" + _RUN,),
    "signal-to-nobody": (
        _ONE + "#SBATCH --signal=USR1@60\npython t.py\n",
        _ONE + "#SBATCH --signal=USR1@60\ntrap save TERM\ntorchrun t.py\n",
        _ONE + "#SBATCH --signal=USR1@60\nsingularity exec --nv a.sif bash -c 'python t.py'\n",
    ),
    "trap-waits-for-srun": (
        _ONE + "#SBATCH --signal=B:USR1@60\ntrap save USR1\n" + _RUN,
        _ONE + "#SBATCH --signal=B:USR1@60\ntrap save USR1\ntorchrun t.py\n",
    ),
    "hostname-too-early": (_NODES + "srun -K python t.py --me $(hostname)\n",),
    "array-shares-file": (_ONE + "#SBATCH --array=0-3\npython t.py $SLURM_ARRAY_TASK_ID > a.log\n",),
    # the end
    "status-lost-in-pipe": (_GPU + "torchrun t.py | tee log\n",),
    "exit-without-status": (
        _ONE + "if x; then\n  echo error: none\n  exit\nfi\ndate\n",
        _ONE + "if x; then\n  echo failed\n  exit 0\nfi\ndate\n",
    ),
    "cd-may-fail": (_ONE + "cd x\nrm -rf a\n", _ONE + "pushd x\nrm -r *\n"),
    "removed-after-copy": (
        _GPU + "python t.py\ncp -r /t/o /r\nrm -rf /t/o\n",
        _GPU + "python t.py\nmv /t/a /r\nrm -rf /t\n",
    ),
    "copy-may-fail": (_GPU + "cp /d/x /t\npython t.py /t/x\n",),
}
_NOT_FOUND = {
    "rendezvous-id-fixed": (
        _NODES + "srun torchrun --rdzv_id $SLURM_JOB_ID t.py\n",
        _NODES + "torchrun --rdzv_id $RANDOM t.py\n",
        _NODES + "srun torchrun --rdzv_id $RANDOM t.py\n",
    ),
    "node-rank-missing": (
        _NODES + "srun torchrun --nnodes 1 --master_addr a t.py\n",
        _NODES + "torchrun --nnodes 2 --master_addr a t.py\n",
        _NODES + "srun torchrun --master_addr a t.py\n",
        _NODES + "srun torchrun --nnodes 2 t.py\n",
        _NODES + "srun torchrun --nnodes 2 --master_addr a --rdzv_backend c10d t.py\n",
        _NODES + "srun bash -c 'torchrun --nnodes 2 --master_addr a --node_rank $SLURM_NODEID t.py'\n",
    ),
    "machine-rank-missing": (
        _NODES + "srun accelerate launch --num_machines 1 t.py\n",
        _NODES + "srun accelerate launch t.py\n",
        _NODES + "accelerate launch --num_machines 2 t.py\n",
        _NODES + "srun accelerate launch --num_machines 2 --rdzv_backend c10d t.py\n",
    ),
    "errors-to-terminal": (
        _ONE + "cat <<E\ndate 2>&1 > log\nE\n",
        _ONE + "# date 2>&1 > log\ndate\n",
        _ONE + "date > log 2>&1\n",
        _ONE + "date 2>&1 > /dev/null\n",
    ),
    "continuation-broken": (
        _ONE + "# date \\ \n-u\n",
        _ONE + "date \\ \n",
        _ONE + "date \\ \n# x\n",
        _ONE + "date \\ \n\n",
        _ONE + "cat <<E\ndate \\ \nls\nE\n",
    ),
    "options-alone": (_ONE + "date\n$@ x\n", _ONE + 'date\n"$@"\n', _ONE + "date \\\n--utc\n"),
    "continuation-comment": (
        _ONE + "date \\\n# x\nls\n",
        _ONE + "date \\\n# x\n",
        _ONE + "date \\\n-u\n",
        _ONE + "srun -n1 ./t \\\n# x\nls\n",
        _ONE + "cat <<E\ndate \\\n# x\n-u\nE\n",
    ),
    "assignment-with-blanks": (_ONE + "A-b = 1\n", _ONE + "set A=1 B=2\n", _ONE + "[ a = b ]\n"),
    "sleep-for-order": (
        _GPU + "vllm serve m &\nfor i in 1 2; do sleep 60; done\npython t.py\n",
        _GPU + "vllm serve m &\nsleep 60 &\npython t.py\n",
        _GPU + "vllm serve m\nsleep 60\n",
        _TWO + "srun bash -c 'sleep 60; python t.py'\n",
        _TWO + "srun bash -c 'if [ $LOCAL_RANK = 0 ]; then sleep 9; fi; python t.py'\n",
        _TWO + "srun bash -c 'while [ $LOCAL_RANK = 0 ]; do sleep 9; done; python t.py'\n",
    ),
    "not-bash": (
        _ONE + "shopt -s extglob\nls !(a)\n",
        _ONE + "shopt -qs extglob\nshopt -s extglob globstar\nls !(a)\n",
        "#!/bin/zsh\nif x; then\n",
    ),
    "nccl-ib-timeout": (
        _TWO + "export NCCL_IB_TIMEOUT=23\n" + _RUN,
        _TWO + "export NCCL_IB_TIMEOUT=$A\n" + _RUN,
        _TWO + "NCCL_IB_TIMEOUT=24\n" + _RUN,
        _TWO + "export NCCL_IB_TIMEOUT=x\n" + _RUN,
    ),
    "debug-switch-left-on": (
        _GPU + "export CUDA_LAUNCH_BLOCKING=0\npython t.py\n",
        _GPU + "export CUDA_LAUNCH_BLOCKING=\npython t.py\n",
        _GPU + "export TORCH_DISTRIBUTED_DEBUG=INFO\npython t.py\n",
        _GPU + "export CUDA_LAUNCH_BLOCKING=$A\npython t.py\n",
        _GPU + "# without this it hangs\nexport CUDA_LAUNCH_BLOCKING=1\npython t.py\n",
        _GPU + "CUDA_LAUNCH_BLOCKING=1\n",
    ),
    "variable-unread": (
        _GPU + "NCLL_DEBUG=INFO\npython t.py\n",
        _GPU + "export NCLL_DEBUG=INFO\necho $NCLL_DEBUG\npython t.py\n",
    ),
    "fabric-off": (
        _TWO + "export NCCL_IB_DISABLE=0\n" + _RUN,
        _GPU + "export NCCL_IB_DISABLE=1\npython t.py\n",
        _TWO + "export FI_PROVIDER=efa\nexport NCCL_IB_DISABLE=1\n" + _RUN,
    ),
    "slurm-variable-misspelt": (
        _TWO + "SLURM_NTAKS=1\nsrun -K python t.py $SLURM_NTAKS\n",
        _TWO + "srun -K python t.py $SLURM_MY_OWN_THING\n",
    ),
    "slurm-variable-unset": (
        _ONE + "echo $SLURM_CPUS_PER_TASK\n",
        _HEAD + '#SBATCH -N1\n[ -n "$SLURM_CPUS_PER_TASK" ] && echo $SLURM_CPUS_PER_TASK\n',
        _HEAD + "#SBATCH --nodes=2\nsrun -K python t.py ${SLURM_NTASKS:-4}\n",
        _TWO + "srun -K python t.py ${SLURM_NTASKS:-3}\n",
        _HEAD + "#SBATCH -N1\nSLURM_CPUS_PER_TASK=2\necho $SLURM_CPUS_PER_TASK\n",
    ),
    "not-exported": (
        _GPU + "NCCL_DEBUG=INFO python t.py\n",
        _GPU + "export NCCL_DEBUG=INFO\npython t.py\n",
        _GPU + "CUDA_VISIBLE_DEVICES=1\npython t.py\n",
        _GPU + "set -a\nNCCL_DEBUG=INFO\npython t.py\n",
        _GPU + "MASTER_PORT=1\ntorchrun t.py\n",
        _GPU + "python t.py\nNCCL_DEBUG=INFO\n",
        _GPU + "NCCL_DEBUG=INFO\nexport NCCL_DEBUG\npython t.py\n",
        _GPU + "NCCL_DEBUG=INFO\npython t.py $NCCL_DEBUG\n",
    ),
    "no-directives": (
        "#!/bin/bash\nsrun hostname $1\n",
        "#!/bin/bash\ndate\n#SBATCH -N1\n",
        "#!/bin/bash\n# sbatch -N1 j.slurm\nsrun hostname\n",
    ),
    "export-none-reaches-srun": (
        _HEAD + "#SBATCH --nodes=1 --export=NONE\nunset SLURM_EXPORT_ENV\nexport A=1\n" + _RUN,
        _HEAD + "#SBATCH --nodes=1 --export=NONE\nexport SLURM_EXPORT_ENV=ALL\n" + _RUN,
        _HEAD + "#SBATCH --nodes=1 --export=NONE\nSLURM_EXPORT_ENV=ALL\n" + _RUN,
        _HEAD + "#SBATCH --nodes=1 --export=NONE\nsrun -K --export=ALL python t.py\n",
        _HEAD + "#SBATCH --nodes=1 --export=ALL\n" + _RUN,
    ),
    "export-drops-environment": (
        _HEAD + "#SBATCH --nodes=1 --export=ALL,A=1\n" + _RUN,
        _TWO + "srun -K --export=ALL,A=1 python t.py\n",
        _TWO + _RUN,
    ),
    "directive-expands": (_ONE + "#SBATCH -o %j.out\ndate\n", _ONE + "#SBATCH -J a\ndate\n"),
    "gpus-of-node-twice": (_ONE + "#SBATCH --gres=nvme:1 --gpus-per-node=2\npython t.py\n", _GPU + "python t.py\n"),
    "memory-in-megabytes": (
        _ONE + "#SBATCH --mem=4000\ndate\n",
        _ONE + "#SBATCH --mem-per-cpu=256\ndate\n",
        _ONE + "#SBATCH --mem=0\ndate\n",
        _ONE + "#SBATCH --mem=4G\ndate\n",
        _ONE + "#SBATCH --mem=16 GB\ndate\n",
    ),
    "output-of-array": (
        _HEAD + "#SBATCH -o %A_%a.out\npython t.py $SLURM_ARRAY_TASK_ID\n",
        _ONE + "#SBATCH --array=0-3 -o a.%a\npython t.py $SLURM_ARRAY_TASK_ID\n",
        _ONE + "#SBATCH --array=0-3 -o /dev/null\ndate\n",
        _ONE + "#SBATCH --array=3 -o a.out\ndate\n",
        _ONE + "#SBATCH -o a.out\ndate\n",
    ),
    "output-of-every-run": (
        _ONE + "#SBATCH -o /dev/null\ndate\n",
        _ONE + "#SBATCH -o a.%j\ndate\n",
        _ONE + "#SBATCH -o a --open-mode=append\ndate\n",
        _ONE + "#SBATCH -o /scratch/88/bd23/.command.log\ndate\n",
    ),
    "requeue-overwrites": (_ONE + "#SBATCH --requeue --open-mode=append\ndate\n",),
    "pattern-in-command": (
        _GPU + "python t.py --log $(date +%j)\n",
        _GPU + "python t.py > $(date +%j).log\n",
        "#!/bin/bash\npython t.py --log run-%j\n",
    ),
    "nodes-pinned": (_ONE + "#SBATCH --nodelist=$A\ndate\n", _ONE + "#SBATCH -w n[1\ndate\n"),
    "tasks-without-nodes": (
        _HEAD + "#SBATCH --nodes=1 --ntasks=8 --gpus-per-node=4\n" + _RUN,
        _HEAD + "#SBATCH --ntasks=1 --gpus-per-node=4\n" + _RUN,
        _HEAD + "#SBATCH --nodes=2 --ntasks=2 --gpus-per-node=4\n" + _RUN,
        _HEAD + "#SBATCH --ntasks=8\n" + _RUN,
        _HEAD + "#SBATCH --ntasks=8 --gpus-per-node=4\nsrun torchrun t.py\n",
    ),
    "tasks-of-node-unused": (
        _TWO + "x=$(srun -n 2 --ntasks-per-node=4 python t.py)\n",
        _TWO + "srun -n 4 --ntasks-per-node=4 python t.py\n",
        _HEAD + "#SBATCH --ntasks=2 --ntasks-per-node=4\nsrun -n 1 python t.py\n",
    ),
    "kill-by-name": (
        _GPU + "pkill tail\npython t.py\n",
        _GPU + "kill $!\npython t.py\n",
        _GPU + "ls | xargs kill\npython t.py\n",
        _GPU + "ps ax | grep t.py | xargs echo\npython t.py\n",
    ),
    "server-open": (_GPU + "vllm serve m --host 127.0.0.1\n", _GPU + "python t.py --host 0.0.0.0\n"),
    "meeting-variable-unset": (
        _TWO + "srun -K python t.py --addr ${MASTER_ADDR:-a}\n",
        _TWO + "srun -K python t.py --addr '$MASTER_ADDR'\n",
        _TWO + "MASTER_ADDR=a\nsrun -K python t.py --addr $MASTER_ADDR\n",
        _TWO + "echo $MASTER_ADDR\n" + _RUN,
    ),
    "container-without-gpus": (
        _GPU + "apptainer exec --nv i.sif python t.py\n",
        _GPU + "apptainer exec $F i.sif python t.py\n",
        _GPU + "apptainer build i.sif d.def\n",
        _GPU + "podman run i python t.py\n",
        _ONE + "apptainer exec i.sif python t.py\n",
        _GPU + "x=$(apptainer exec i.sif python t.py)\n",
    ),
    "bashrc-in-job": (
        _GPU + "source ~/env.sh\npython t.py\n",
        _GPU + "source\npython t.py\n",
        _GPU + "cat ~/.bashrc\npython t.py\n",
    ),
    "conda-under-nounset": (
        _GPU + "set -u\nset +u\nconda activate x\npython t.py\n",
        _GPU + "set -u\nset +o nounset\nconda activate x\npython t.py\n",
        _GPU + "conda activate x\nset -u\npython t.py\n",
        _GPU + "$(set -u)\nconda activate x\npython t.py\n",
        _GPU + "set -e nounset\nconda activate x\npython t.py\n",
    ),
    "install-in-job": (
        _TWO + "srun -K bash -c 'if [ $SLURM_LOCALID = 0 ]; then pip install x; fi; python t.py'\n",
        _GPU + "pip list\npython t.py\n",
    ),
    "one-process-many-gpus": (
        _FOUR + "vllm serve m -tp 4\n",
        _FOUR + "for p in 1 2; do vllm serve m; done\n",
        _FOUR + "CUDA_VISIBLE_DEVICES=0 vllm serve m\n",
        _FOUR + "vllm serve m $MORE\n",
        _FOUR + "vllm serve m &\nvllm serve n &\nwait\n",
    ),
    "workers-beyond-cpus": (
        _GPU + "python t.py --num_workers 4\n",
        _GPU + "python t.py --num_things 5\n",
        _HEAD + "#SBATCH -N1\npython t.py --num_workers 5\n",
    ),
    "srun-cpus-per-task": (
        _GPU + "srun -K -c 4 python t.py\n",
        _GPU + "export SRUN_CPUS_PER_TASK=4\n" + _RUN,
        _HEAD + "#SBATCH -N1 -c1\n" + _RUN,
        _GPU + "srun -K $FLAGS python t.py\n",
        _GPU + "srun hostname\n",
    ),
    "port-fixed": (
        _GPU + "torchrun --master_port $P t.py\n",
        _GPU + "torchrun --rdzv_endpoint a t.py\n",
        _GPU + "torchrun --standalone t.py\n",
        _GPU + 'torchrun "--${FLAG}" t.py\n',
    ),
    "signal-to-steps-only": (
        _ONE + "#SBATCH --signal=B:USR1@60\ntrap save USR1\n" + _RUN,
        _ONE + "#SBATCH --signal=USR1@60\ntrap save TERM\n" + _RUN,
        _ONE + "#SBATCH --signal=USR1@60\ntrap\n" + _RUN,
    ),
    "signal-to-nobody": (
        _ONE + "python t.py\n",
        _ONE + "#SBATCH --signal=B:USR1@60\npython t.py\n",
        _ONE + "#SBATCH --signal=USR1@60\ntrap save USR1\npython t.py\n",
        _ONE + "#SBATCH --signal=USR1@60\nsrun -K python t.py\n",
        _ONE + "#SBATCH --signal=USR1@60\nL=srun\n$L python t.py\n",
        _ONE + "#SBATCH --signal=USR1@60\npython a.py\nbash starts.sh\n",
        _ONE + "#SBATCH --signal=USR1@60\necho done\n",
    ),
    "trap-waits-for-srun": (
        _ONE + "#SBATCH --signal=B:USR1@60\ntrap save USR1\nsrun -K python t.py &\nwait $!\n",
        _ONE + "#SBATCH --signal=USR1@60\ntrap save USR1\n" + _RUN,
        _ONE + "#SBATCH --signal=B:USR1@60\n" + _RUN,
        _ONE + "#SBATCH --signal=B:USR1@60\ntrap save USR1\nx=$(python t.py)\n",
    ),
    "hostname-too-early": (
        _NODES + "srun -K python t.py --init tcp://$(hostname):1\n",
        _ONE + "srun -n1 python t.py --me $(hostname)\n",
        _NODES + "srun -w $(hostname) python t.py\n",
        _NODES + "srun -K python t.py --me $(hostnamectl)\n",
    ),
    "array-shares-file": (
        _ONE + "#SBATCH --array=0-3\npython t.py >> a.log\n",
        _ONE + "#SBATCH --array=0-3\nx=$(python t.py > a.log)\n",
        _ONE + "#SBATCH --array=0-3\nif x; then python t.py > a.log; fi\n",
        _ONE + "#SBATCH --array=0-3\ncd $SLURM_ARRAY_TASK_ID\npython t.py > a.log\n",
        _ONE + "#SBATCH --array=0-3\npython t.py > $SLURM_ARRAY_TASK_ID.log\n",
        _ONE + "python t.py > a.log\n",
    ),
    "status-lost-in-pipe": (
        _GPU + "set -o pipefail\ntorchrun t.py | tee log\n",
        _GPU + "torchrun t.py | tee log\nexit ${PIPESTATUS[0]}\n",
        _GPU + "x=$(torchrun t.py | tail -1)\n",
        _GPU + "torchrun t.py | tee log &\nwait $!\n",
        _GPU + "date | tee log\n",
    ),
    "exit-without-status": (
        _ONE + "echo failed\nexit\n",
        _ONE + "if x; then\n  echo failed\n  exit 1\nfi\ndate\n",
        _ONE + "if x; then\n  echo failed\n\n\n  exit\nfi\ndate\n",
    ),
    "cd-may-fail": (
        _ONE + "cd x || exit\nrm -rf a\n",
        _ONE + "cd x && rm -rf a\n",
        _ONE + "mkdir x\ncd x\nrm -rf a\n",
        _ONE + "cd x\nrm -rf /a\n",
        _ONE + "set -e\ncd x\nrm -rf a\n",
        _ONE + "cd\nrm -rf a\n",
    ),
    "removed-after-copy": (
        _GPU + "python t.py\ncp -r /t/o /r\nrm -rf /t/p\n",
        _GPU + "python t.py\nf() { cp -r /t/o /r; }\nrm -rf /t/o\n",
        _GPU + "python t.py\ncp -r /t/o /r\nf() { rm -rf /t/o; }\n",
        _GPU + "python t.py\ncp /t/o\nrm -rf /t/o\n",
        _GPU + "python t.py\nx && cp -r /t/o /r\nrm -rf /t/o\n",
        _GPU + "python t.py\ncp -r ./* /r\nrm -rf .\n",
    ),
    "copy-may-fail": (
        _GPU + "if x; then cp /d/x /t; fi\npython t.py /t/x\n",
        _GPU + "while x; do cp /d/x /t; done\npython t.py /t/x\n",
        _GPU + "python t.py /t/x\ncp /d/x /t\n",
        _GPU + "cp /d/x /t\ncp /t/x /u\n",
        _GPU + "cp /d/x /t || exit\npython t.py /t/x\n",
    ),
    "wait-forgets-status": (
        _GPU + "python t.py &\nwait -n\n",
        _GPU + "python t.py &\nfor p in $(jobs -p); do wait $p; done\nwait\n",
        _GPU + "wait\npython t.py &\n",
        _GPU + "(python t.py || touch x) &\nwait\n",
    ),
}


_ARRAY = _ONE + "#SBATCH --array={}\nseeds=(1 2 3)\npython t.py ${{seeds[$SLURM_ARRAY_TASK_ID]}}\n"
_MORE_FOUND = {
    "nodes-disagree": (
        _NODES + "srun torchrun --nnodes 4 t.py\n",
        _NODES + "srun torchrun --nnodes=1 t.py\n",
        _FOUR + "torchrun --nnodes 2 t.py\n",
    ),
    "gpus-in-all": (
        _HEAD + "#SBATCH --nodes=2 --gpus=8\n" + _RUN,
        _HEAD + "#SBATCH --gpus=4\npython t.py\n",
        _HEAD + "#SBATCH --gpus=a100:16\npython t.py\n",
    ),
    "visible-devices-literal": (
        _FOUR + "export CUDA_VISIBLE_DEVICES=4\npython t.py\n",
        _FOUR + "export CUDA_VISIBLE_DEVICES=0,1\npython t.py\n",
        _FOUR + "CUDA_VISIBLE_DEVICES=0 python t.py\n",
        _GPU + "export CUDA_VISIBLE_DEVICES=1\npython t.py\n",
        _GPU + "export CUDA_VISIBLE_DEVICES=0,1\nsrun -K ./t\n",
    ),
    "step-without-command": (
        _TWO + "srun -K\npython t.py\n",
        _TWO + "srun bash $1\n",
        _TWO + "srun bash ${1}\n",
        _TWO + "srun --ntasks 4\n",
    ),
    "agent-on-first-node": (
        _NODES + "torchrun --nnodes 2 t.py\n",
        _NODES + "torchrun --nnodes $SLURM_NNODES t.py\n",
        _NODES + "torchrun t.py\n",
        _NODES + "accelerate launch t.py\n",
    ),
    "threads-too-many": (
        _ONE + "export OMP_NUM_THREADS=5\npython t.py\n",
        _ONE + "OMP_NUM_THREADS=5 python t.py\n",
        _HEAD + "#SBATCH -N1\nexport OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-2}\npython t.py\n",
        _ONE + "#SBATCH --gres=gpu:4\nexport OMP_NUM_THREADS=2\ntorchrun --nproc_per_node 4 t.py\n",
    ),
    "array-beyond-list": (
        _ARRAY.format("0-3"),
        _ARRAY.format("0-1"),
        _ARRAY.format("1-2"),
        _ARRAY.format("1-2%4"),
        _ONE + "#SBATCH --array=0-3\nSLURM_ARRAY_TASK_ID=1\npython t.py $SLURM_ARRAY_TASK_ID\n",
    ),
    "docker-in-job": (
        _GPU + "docker run i\n",
        _GPU + "sudo docker exec c x\n",
        _GPU + "nvidia-docker run i\n",
        _GPU + "docker-compose up\n",
    ),
    "download-in-job": (
        _GPU + "wget https://a/b\npython t.py\n",
        _GPU + "curl -O https://a/b\npython t.py\n",
        _GPU + "curl https://a/b > c\npython t.py\n",
        _GPU + "curl https://a/b | tar x\npython t.py\n",
        _GPU + "git clone https://a/b\npython t.py\n",
        _GPU + "apptainer exec --nv docker://a/b python t.py\n",
    ),
    "code-changes-in-job": (_GPU + "git pull\npython t.py\n", _GPU + "git -C /x checkout main\npython t.py\n"),
    "python-on-first-node": (_NODES + "python train.py\n",),
    "variable-never-read": (
        _GPU + "epochs=10\npython train.py --epochs 90\n",
        _GPU + "run='srun python train.py'\npython train.py\n",
    ),
}
_MORE_NOT_FOUND = {
    "nodes-disagree": (
        _NODES + "srun torchrun --nnodes 2 t.py\n",
        _NODES + "srun torchrun --nnodes $N t.py\n",
        _NODES + "srun -N 1 torchrun --nnodes 1 t.py\n",
        _NODES + "srun -n 1 torchrun --nnodes 1 t.py\n",
        _NODES + "srun torchrun t.py\n",
        _FOUR + "torchrun --nnodes 2 t.py\nssh n2 torchrun t.py\n",
        _NODES + "torchrun --nnodes 4 t.py\n",
        _FOUR + "torchrun --nnodes 1 t.py\n",
    ),
    "gpus-in-all": (
        _HEAD + "#SBATCH --nodes=2 --gpus=8 --gpus-per-node=4\n" + _RUN,
        _HEAD + "#SBATCH --nodes=1 --gpus=4\npython t.py\n",
        _HEAD + "#SBATCH --gpus=1\npython t.py\n",
        _HEAD + "#SBATCH --gpus=4\nsrun -K python t.py\n",
        _HEAD + "#SBATCH --gpus=4\ndate\n",
        _HEAD + "#SBATCH --gpus=4 --nodelist=n1\npython t.py\n",
    ),
    "visible-devices-literal": (
        _FOUR + "export CUDA_VISIBLE_DEVICES=0,1,2,3\npython t.py\n",
        _FOUR + "export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID\npython t.py\n",
        _FOUR + "export CUDA_VISIBLE_DEVICES=\npython t.py\n",
        _FOUR + "if x; then export CUDA_VISIBLE_DEVICES=0; fi\npython t.py\n",
        _FOUR + "CUDA_VISIBLE_DEVICES=0 python t.py &\nCUDA_VISIBLE_DEVICES=1 python t.py &\nwait\n",
        _HEAD + "#SBATCH -N1\nexport CUDA_VISIBLE_DEVICES=0\npython t.py\n",
        _FOUR + "srun --gres=gpu:2 env CUDA_VISIBLE_DEVICES=0,1 python t.py\n",
        _FOUR + "OTHER=0 python t.py\n",
        _GPU + "#SBATCH --exclusive\nexport CUDA_VISIBLE_DEVICES=3\n./t\n",
    ),
    "step-without-command": (
        _TWO + "srun --version\n",
        _TWO + "srun -n4 < script\n",
        _TWO + "srun $FLAGS\n",
        _TWO + "if [ $# = 1 ]; then srun bash $1; fi\n",
        _TWO + "bash $1\n",
        _TWO + "srun bash $2\n",
        _TWO + "srun --multi-prog conf\n",
    ),
    "agent-on-first-node": (
        _FOUR + "torchrun --nnodes 2 t.py\n",
        _NODES + "srun torchrun --nnodes 2 t.py\n",
        _NODES + "mpirun torchrun --nnodes 2 t.py\n",
        _NODES + "x=$(torchrun --nnodes 2 t.py)\n",
        _NODES + "torchrun --standalone t.py\n",
        _NODES + "f() { torchrun --nnodes 2 t.py; }\n",
        _NODES + "for n in a b; do torchrun --nnodes 2 t.py; done\n",
        _NODES + "torchrun $MORE t.py\n",
        _NODES + "ssh b torchrun --nnodes 2 t.py\n",
        _NODES + "srun date\ntorchrun --nnodes 2 t.py\n",
        _NODES + "deepspeed --hostfile h t.py\n",
    ),
    "threads-too-many": (
        _ONE + "export OMP_NUM_THREADS=4\npython t.py\n",
        _ONE + "export OTHER=5\npython t.py\n",
        _ONE + "export OMP_NUM_THREADS=$N\npython t.py\n",
        _ONE + "export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-8}\npython t.py\n",
        _HEAD + "#SBATCH -N1\nexport OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}\npython t.py\n",
        _HEAD + "#SBATCH -N1 --exclusive\nexport OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-2}\npython t.py\n",
        _ONE + "#SBATCH --gres=gpu:4\nexport OMP_NUM_THREADS=1\ntorchrun --nproc_per_node 4 t.py\n",
        _ONE + "#SBATCH --gres=gpu:4\nexport OMP_NUM_THREADS=2\ntorchrun --nproc_per_node 2 t.py\n",
        "#!/bin/bash\nexport OMP_NUM_THREADS=500\npython t.py\n",
    ),
    "array-beyond-list": (
        _ARRAY.format("0-2"),
        _ARRAY.format("0,9"),
        _ARRAY.format("0-9").replace("seeds=(1 2 3)", "seeds=(1 2 3)\nseeds=(1 2)"),
        _ARRAY.format("0-9").replace("(1 2 3)", "(*.txt)"),
        _ARRAY.format("0-9").replace("(1 2 3)", "($A 2)"),
        _ARRAY.format("0-9").replace("seeds=", "if x; then seeds=").replace("3)", "3); fi"),
        _ARRAY.format("0-9").replace("seeds[$SLURM_ARRAY_TASK_ID]", "seeds[0]"),
        _ONE + "#SBATCH --array=3\nSLURM_ARRAY_TASK_ID=1\npython t.py\n",
        _ONE + "#SBATCH --array=0-3\nSLURM_ARRAY_TASK_ID=1 python t.py\n",
        _ONE + "#SBATCH --array=0-3\nif x; then SLURM_ARRAY_TASK_ID=1; fi\npython t.py $SLURM_ARRAY_TASK_ID\n",
        _ONE + "#SBATCH --array=0-3\nSLURM_ARRAY_TASK_ID=$1\npython t.py $SLURM_ARRAY_TASK_ID\n",
    ),
    "docker-in-job": (
        _GPU + "docker ps\n",
        _GPU + "# podman\ndocker run i\n",
        _GPU + "docker run hello-world\n",
        _GPU + "docker run i true\n",
        "#!/bin/bash\ndocker run i\n",
        _GPU + "echo docker run i\n",
    ),
    "download-in-job": (
        _GPU + "wget http://localhost:8000/x\npython t.py\n",
        _GPU + "curl https://a/b\npython t.py\n",
        _GPU + "curl -X POST https://a/b > c\npython t.py\n",
        _GPU + "curl -o c -d x https://a/b\npython t.py\n",
        _GPU + "curl -o c a/b\npython t.py\n",
        _GPU + "[ -e b ] || wget https://a/b\npython t.py\n",
        _GPU + "if x; then wget https://a/b; fi\npython t.py\n",
        _GPU + "python t.py\nwget https://a/b\n",
        _GPU + "apptainer exec --nv i.sif python t.py\n",
    ),
    "code-changes-in-job": (
        _GPU + "git clone https://a/b\ngit pull\npython t.py\n",
        _GPU + "cd $TMPDIR\ngit pull\npython t.py\n",
        _GPU + "if x; then git pull; fi\npython t.py\n",
        _GPU + "f() { git pull; }\npython t.py\n",
        _GPU + "x=$(git stash list; git pull)\npython t.py\n",
        _GPU + "git status\npython t.py\n",
        _GPU + "git pull\n",
    ),
    "python-on-first-node": (
        _FOUR + "python train.py\n",
        _NODES + "srun date\npython train.py\n",
        _NODES + "python train.py 4 aprun ./work\n",
        _NODES + "ssh n2 x\npython train.py\n",
        _NODES + "for i in 1 2; do python train.py; done\n",
        _NODES + "x=$(python train.py)\n",
        _NODES + "f() { python train.py; }\n",
        _NODES + "python prepare.py\n",
        _NODES + "python launch_train.py\n",
    ),
    "variable-never-read": (
        _GPU + "epochs=10\npython train.py --epochs $epochs\n",
        _GPU + "export epochs=10\npython train.py --epochs 90\n",
        _GPU + "epochs=90\npython train.py --epochs 90\n",
        _GPU + "epochs=10 python train.py --epochs 90\n",
        _GPU + "set -a\nepochs=10\npython train.py --epochs 90\n",
        _GPU + "epochs=$1\npython train.py --epochs 90\n",
        _GPU + "epochs=10\npython train.py --epochs --other\n",
        _GPU + "epochs=10\npython train.py --epochs\n",
        _GPU + "run='srun python train.py'\n$run\n",
        _GPU + "run='srun python'\npython train.py\n",
        _GPU + "epochs=10\nenv\npython train.py --epochs 90\n",
    ),
}


def _rows(scripts: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(rule, text) for rule, texts in scripts.items() for text in texts]


def _rules(text: str) -> set[str]:
    return {finding.rule for finding in lint_source(source_of("job.slurm", text))}


@pytest.mark.parametrize(("rule", "text"), [*_rows(_FOUND), *_rows(_MORE_FOUND)])
def test_a_fault_is_found(rule: str, text: str) -> None:
    assert rule in _rules(text)


@pytest.mark.parametrize(("rule", "text"), [*_rows(_NOT_FOUND), *_rows(_MORE_NOT_FOUND)])
def test_what_is_no_fault_is_not_found(rule: str, text: str) -> None:
    assert rule not in _rules(text)
