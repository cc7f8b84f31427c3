#!/bin/bash
# The facts of llsc-supercloud/teaching-examples @e87f197, Python/pytorch/Distributed/batch.sh; written anew.
#SBATCH --job-name pytorch
#SBATCH -o %j.log
#SBATCH -N 2
#SBATCH --tasks-per-node=2
#SBATCH --gres=gpu:volta:2

source /etc/profile
module load anaconda/2021a
module load mpi/openmpi-4.0
module load cuda/10.1
module load nccl/2.5.6-cuda10.1
export FLAGS="--tag-output --bind-to socket -map-by core -mca btl ^openib -mca pml ob1 -x PSM2_GPUDIRECT=1 -x NCCL_NET_GDR_LEVEL=5 -x NCCL_P2P_LEVEL=5 -x NCCL_NET_GDR_READ=1"
export MASTER_ADDR=$(hostname -s)
export MASTER_PORT=$(python -c 'import socket; print(29500)')
echo "address: ${MASTER_ADDR}:${MASTER_PORT}"
mpirun ${FLAGS} python torch_test.py
