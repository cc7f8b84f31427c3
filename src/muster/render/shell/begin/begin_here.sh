# Begins a run on this machine. dir: the working directory. tasks, cpus: ranks per node and CPUs per rank.
muster_begin() {
    # These end the ranks. The job then ends with this status, whatever the launcher's status is.
    trap 'muster_interrupted=130' INT && trap 'muster_interrupted=143' TERM && trap 'muster_interrupted=129' HUP
    muster_job=here-$$
    muster_run_dir=$PWD/muster-runs/$muster_job
    muster_take 'muster_begin: dir tasks cpus nodes' "$@"
    muster_go_to "$muster_dir"
    muster_ntasks_per_node=$muster_tasks muster_cpus_per_task=${muster_cpus:-0}
    muster_forget
}

# Ends the run with the exit status of its ranks.
muster_finish() { exit "${muster_interrupted:-$muster_status}"; }
