"""What the examples of several rules share: headers, and commands that are right."""

TIME = "#SBATCH --time=01:00:00\n"
TASKS = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n" + TIME
NODES = TASKS.replace("node=4", "node=1", 1)
MEET = 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nport=$((20000 + SLURM_JOB_ID % 9999))\n'
_MEETING = '--rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$head:$port"'
AGENT = f'torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=4 {_MEETING} train.py\n'
STEP = "srun --kill-on-bad-exit=1 python train.py\n"
