# refused: 1 of 4 GPUs, but meluxina gives whole nodes only (LuxProvide documentation, quick start and system overview, checked 2026-11-20)
# hint: --gpus-per-node 4
