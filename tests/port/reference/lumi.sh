#!/usr/bin/env -S bash -e
# The facts of Lumi-supercomputer/Getting_Started_with_AI_workshop @74f6a52, train_multi_node_ddp_env_setup.sh; written anew.
#SBATCH --job-name=train_multi_node
#SBATCH --nodes=4
#SBATCH --tasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --mem=480G
#SBATCH --output="output_%x_%j.txt"
#SBATCH --partition=standard-g
#SBATCH --time=00:05:00
#SBATCH --account=project_465000000

module use /appl/local/training/modules/AI-20241126
module load singularity-userfilesystems
module load singularity-CPEbits
export MASTER_ADDR=$(hostname)
export MASTER_PORT=29500
export NCCL_SOCKET_IFNAME=hsn
export NCCL_NET_GDR_LEVEL=PHB
export MIOPEN_USER_DB_PATH=/tmp/${USER}-miopen-cache-${SLURM_JOB_ID}
export MIOPEN_CUSTOM_CACHE_DIR=${MIOPEN_USER_DB_PATH}
c=fe
mask="0x${c}000000000000,0x${c}00000000000000,0x${c}0000,0x${c}000000,0x${c},0x${c}00,0x${c}00000000,0x${c}0000000000"
srun --cpu-bind=mask_cpu:$mask singularity exec minimal_pytorch.sif \
  bash -c "ROCR_VISIBLE_DEVICES=\$SLURM_LOCALID python3 train_ddp.py"
