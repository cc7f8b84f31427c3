# refused: 1 of 3 GPUs, but lonestar6 gives whole nodes only (Lonestar6 user guide, running jobs, checked 2026-11-22)
# hint: --gpus-per-node 3
