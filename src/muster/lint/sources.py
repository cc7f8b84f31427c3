"""Who says so: documents that can be opened again, by repository, path and commit."""

from __future__ import annotations

SBATCH = "SchedMD/slurm doc/man/man1/sbatch.1 @15679445bfea"
SRUN = "SchedMD/slurm doc/man/man1/srun.1 @3bf22c447ad1"
SLURM_NEWS = "SchedMD/slurm RELEASE_NOTES @fd690b6c6e17"
SBATCH_CODE = "SchedMD/slurm src/sbatch/opt.c @822e5a589075"
BASH = "bash(1), the sections SIGNALS, TRAP and Pipelines (GNU Bash 5.2 reference manual)"
TORCHRUN = "pytorch/pytorch torch/distributed/run.py @f34fa1515024"
TORCH_C10D = "pytorch/pytorch torch/distributed/distributed_c10d.py @6170845ea8a4"
TORCH_DDP = "pytorch/pytorch torch/nn/parallel/distributed.py @25562d3d4187"
TORCH_SAMPLER = "pytorch/pytorch torch/utils/data/distributed.py @9299e32633983"
TORCH_CUDA = "pytorch/pytorch docs/source/notes/cuda.rst @68e217b9e71f"
NCCL = "NVIDIA/nccl docs/userguide/source/env.rst @f3b8c2910442"
ACCELERATE = "huggingface/accelerate examples/slurm/submit_multinode.sh @6525931792e8"
TORCHTITAN = "pytorch/torchtitan multinode_trainer.slurm @379cf9739c14"
DDP_BASICS = "Helmholtz-AI-Energy/DDP-Basics README.md @bda9fcf"
COTAINR_BASICS = "the workshop Getting_Started_with_AI, bonus_material/pytorch_cotainr_container_basics @2b739a3"
    "Lumi-supercomputer/Getting_Started_with_AI_workshop bonus_material/pytorch_cotainr_container_basics @2b739a3"
)
ML_DIST = "L-Lamont/ml-dist pytorch/README.md @a1a5f0a"
