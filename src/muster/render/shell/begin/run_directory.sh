# Finds the run directory: `muster submit` points the output to RUN/logs/batch.log, and ranks write files there.
# Otherwise it is made, all output goes to where sbatch sends that of the script, and RUN/output names this place.
muster_find_run_directory() {
    muster_output=$(readlink /proc/$$/fd/1 2>/dev/null)
    muster_run_dir=${muster_chain_run:-${muster_output%/logs/batch.log}}
    [ "$muster_run_dir" != "$muster_output" ] ||
        muster_run_dir=${muster_moved_run:-${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job}
    (umask 077 && mkdir -p "$muster_run_dir/logs") || muster_stop "the directory $muster_run_dir/logs cannot be made" \
        'submit from a directory that the compute nodes can write'
    muster_keep_logs_in "$muster_run_dir/logs"
    if [ "$muster_output" != "$muster_logs/batch.log" ]; then
        (umask 077 && printf '%s\n' "$muster_output" >"$muster_run_dir/output") 2>/dev/null
        [ "$(type -t muster_open_errors)" != function ] || muster_open_errors
        muster_keeps_logs='' muster_output_flags=("${muster_error[@]}")
    fi
    # Space that the warning of muster_leave_run_directory needs when the disk is full.
    muster_room=$muster_logs/.room
    { printf '%16384s' '' >"$muster_room"; } 2>/dev/null || :
}

# Has the ranks write into the directory $1: each node to a file of its own.
muster_keep_logs_in() { muster_logs=$1 muster_keeps_logs=1 muster_output_flags=(--output="$1/%N.log"); }
