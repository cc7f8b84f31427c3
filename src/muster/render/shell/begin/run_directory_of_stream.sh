# Names the run directory. The output goes to the terminal, so the directory is only made when something is written
# there.
muster_find_run_directory() {
    muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job
}

# Removes the run directory, if nothing but the ends of the ranks was written there.
muster_leave_run_directory() {
    [ -z "${MUSTER_ENDS:-}" ] || { rm -rf "$MUSTER_ENDS" && rmdir "$muster_run_dir/ranks" "$muster_run_dir" "${muster_run_dir%/*}"; } 2>/dev/null
}
