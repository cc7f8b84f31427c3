#!/bin/bash
# The facts of L-Lamont/ml-dist @a1a5f0a, pytorch/ddp_pytorch.job; written anew.
#SBATCH --job-name=pytorch-example
#SBATCH --partition=example-partition
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --constraint=example-constraint

stop() { printf "%s\n" "$*" >&2; exit 1; }
module purge
module load slurm
module load openmpi
module load cuda
module load nccl
module load python
module load apptainer
export http_proxy="http://proxy.example.org"
export https_proxy="http://proxy.example.org"
USE_CONTAINER=0
GPUS_PER_NODE=1
ROOT="/path/to/ml-dist"
OUTPUT="$ROOT/output/$SLURM_JOB_NAME-$(date +%F.%T)"
export TMPDIR="$TMPDIR_SHM"
export MASTER_ADDR="$(scontrol show hostname "$SLURM_JOB_NODELIST" | head -n 1):29401"
mkdir $OUTPUT
[[ -d "$OUTPUT" ]] || stop "there is no folder"
args="--data-dir=$ROOT/data --output-dir=$OUTPUT"
agent="--nproc_per_node $GPUS_PER_NODE --nnodes $SLURM_NNODES --rdzv_endpoint $MASTER_ADDR --rdzv_backend c10d"
mpi="--np $SLURM_JOB_NUM_NODES --bind-to none -map-by slot -x NCCL_DEBUG=INFO -x NCCL_IB_GID_INDEX=3 -x LD_LIBRARY_PATH -x PATH"
if [[ ${USE_CONTAINER} == 0 ]]; then
  source "$ROOT/venv/bin/activate"
  time mpirun $mpi torchrun $agent $ROOT/training.py $args
else
  time mpirun $mpi apptainer run --nv -B $ROOT:$ROOT $ROOT/pytorch_latest.sif torchrun $agent $ROOT/training.py $args
fi
