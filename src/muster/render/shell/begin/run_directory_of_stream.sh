# Names the run directory. The output goes to the terminal, so the directory is only made when something is written
# there.
muster_find_run_directory() {
    muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job
}

# Does nothing: the output of this run is in no file.
muster_leave_run_directory() { :; }
