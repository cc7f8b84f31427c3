# Chooses a free port to meet at on the host of rank 0, if this is the one: jobs side by side take different ports.
muster_choose_port() {
    muster_first_host "$SLURM_JOB_NODELIST"
    read -r muster_here </proc/sys/kernel/hostname
    if [ "${SLURMD_NODENAME:-$muster_here}" != "$muster_first" ]; then
        # Ranks of the attempt before may still hold the port that follows from the ids of the job.
        [ "${muster_number:-1}" -eq 1 ] || muster_port_from_ids "$SLURM_JOB_ID" "$((muster_number * 7))"
        [ "${muster_number:-1}" -eq 1 ] || export MUSTER_PORT=$muster_port
        return 0
    fi
    muster_port_from_ids "$SLURM_JOB_ID" "$$"
    export MUSTER_PORT_CHOSEN=1
    for _ in {1..64}; do
        export MUSTER_PORT=$muster_port
        muster_port_is_taken "$muster_port" || return 0
        muster_port=$((MUSTER_PORT_LOW + (muster_port + 1 - MUSTER_PORT_LOW) % MUSTER_PORT_COUNT))
    done
    muster_stop "no free port between $MUSTER_PORT_LOW and $((MUSTER_PORT_LOW + MUSTER_PORT_COUNT))" \
        'give another range with --port-range'
}
