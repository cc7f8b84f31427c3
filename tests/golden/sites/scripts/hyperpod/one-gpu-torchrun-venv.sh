# refused: 1 of 8 GPUs, but hyperpod gives whole nodes only (AWS samples for distributed training, DDP with Slurm, checked 2026-11-22)
# hint: --gpus-per-node 8
