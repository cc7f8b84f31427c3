# Begins a run on this machine. $1: the working directory. $2, $3: ranks per node and CPUs per rank. $4: nodes.
muster_begin() {
    # Ctrl-C, SIGTERM and SIGHUP end the ranks. The job then ends with this status, whatever the launcher's status is.
    trap 'muster_interrupted=130' INT
    trap 'muster_interrupted=143' TERM
    trap 'muster_interrupted=129' HUP
    muster_job=here-$$
    muster_run_dir=$PWD/muster-runs/$muster_job
    muster_go_to "$1"
    muster_ntasks_per_node=$2 muster_cpus_per_task=$3 muster_nodes=$4
    muster_forget
}

# Ends the run with the exit status of its ranks.
muster_finish() { exit "${muster_interrupted:-$muster_status}"; }
