# The output goes to where the run was typed: the directory is made by what writes into it.
muster_find_run_directory() {
    muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job
}
