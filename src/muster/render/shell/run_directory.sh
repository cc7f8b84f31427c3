# Finds the run directory: `muster submit` points the output to RUN/logs/batch.log. Without that, the directory is made.
muster_find_run_directory() {
    muster_output=$(readlink /proc/$$/fd/1 2>/dev/null)
    muster_run_dir=${muster_output%/logs/batch.log}
    [ "$muster_run_dir" != "$muster_output" ] || muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job
    (umask 077 && mkdir -p "$muster_run_dir/logs") || muster_stop "the directory $muster_run_dir/logs cannot be made" \
        'submit from a directory that the compute nodes can write'
    muster_logs=$muster_run_dir/logs
}
