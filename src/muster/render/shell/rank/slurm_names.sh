# Sets Slurm's variables for this rank. Some programs (JAX, ignite, mmengine) read them, and would find there the agent
# or the daemon that started the rank.
if [ -n "${SLURM_JOB_ID:-}${MUSTER_SLURM_NAMES:-}" ]; then
    export SLURM_JOB_ID="${SLURM_JOB_ID:-${MUSTER_JOB##*-}}"
    export SLURM_PROCID="$RANK" SLURM_LOCALID="$LOCAL_RANK" SLURM_NODEID="$GROUP_RANK" SLURM_TASK_PID="$$"
    export SLURM_NTASKS="$WORLD_SIZE" SLURM_NPROCS="$WORLD_SIZE" SLURM_STEP_NUM_TASKS="$WORLD_SIZE"
    export SLURM_NNODES="$GROUP_WORLD_SIZE" SLURM_STEP_NUM_NODES="$GROUP_WORLD_SIZE"
    muster_each=$LOCAL_WORLD_SIZE
    [ "$GROUP_WORLD_SIZE" -lt 2 ] || muster_each="$muster_each(x$GROUP_WORLD_SIZE)"
    export SLURM_TASKS_PER_NODE="$muster_each" SLURM_STEP_TASKS_PER_NODE="$muster_each" \
        SLURM_NTASKS_PER_NODE="$LOCAL_WORLD_SIZE"
    # The agent's own value counts the CPUs of all ranks of its node.
    [ "${MUSTER_CPUS:-0}" -eq 0 ] || export SLURM_CPUS_PER_TASK="$MUSTER_CPUS"
    unset SLURM_GTIDS
    # The ranks of mpirun are not a step of Slurm, but its daemons on the other hosts are. Ranks on this machine have no
    # step.
    muster_list=
    for muster_name in ${MUSTER_NODES:-}; do muster_list=$muster_list${muster_list:+,}$muster_name; done
    [ -z "${MUSTER_LOCAL_NNODES:-}${MUSTER_SLURM_NAMES:-}" ] || read -r muster_list </proc/sys/kernel/hostname
    [ -z "$muster_list" ] || export SLURM_STEP_NODELIST="$muster_list"
fi
