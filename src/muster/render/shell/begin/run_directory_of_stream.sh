# Names the run directory. The output goes to the terminal, so the directory is only made when something is written
# there: the ends of the ranks lie beside it.
muster_find_run_directory() {
    muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job
    muster_ends_dir=${muster_run_dir%/*}/.ranks
}

# Removes what the ends of the ranks were written into.
muster_leave_run_directory() {
    [ -z "${MUSTER_ENDS:-}" ] || { rm -rf "$MUSTER_ENDS" &&
        rmdir "$muster_ends_dir" "${muster_ends_dir%/*}"; } 2>/dev/null
}
