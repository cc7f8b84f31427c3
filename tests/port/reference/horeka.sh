#!/usr/bin/env bash
# The facts of Helmholtz-AI-Energy/DDP-Basics @bda9fcf, README.md: flags, variables, paths; written anew.
#SBATCH --ntasks-per-node=4
#SBATCH --partition=accelerated

STEP=(
  --mpi="pmi2"
  --label
)
ml purge

export DATA_DIR_TRAIN="/data/train"
export DATA_DIR_VAL="/data/test"
export CHECKPOINT_OUT="/data/checkpoints"
export CONTAINER="/data/containers/sandbox_torch/"
export NCCL_IB_TIMEOUT=30
export SHARP_COLL_LOG_LEVEL=3
export OMPI_MCA_coll_hcoll_enable=0
export NCCL_SOCKET_IFNAME="ib0"
export NCCL_COLLNET_ENABLE=0

srun "${STEP[@]}" singularity exec --nv --bind "/scratch","/tmp","${CHECKPOINT_OUT}","${DATA_DIR_TRAIN}" \
  ${CONTAINER} bash -c "MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1); MASTER_PORT=6000;
    python /repo/script.py -a qrnn3d --datadir ${DATA_DIR_TRAIN} --workers 4 --comm-method nccl-slurm-pmi"
