# The beginning of a run on this machine. $1: where it works; $2, $3: ranks of a node and CPUs of a rank; $4: nodes.
muster_begin() {
    # Ctrl-C, SIGTERM or a hang-up ends the ranks; whatever the launcher then says, this is what happened.
    trap 'muster_interrupted=130' INT
    trap 'muster_interrupted=143' TERM
    trap 'muster_interrupted=129' HUP
    muster_job=here-$$
    muster_run_dir=$PWD/muster-runs/$muster_job
    muster_go_to "$1"
    # shellcheck disable=SC2034  # the job uses it, if CPUs were asked for
    muster_ntasks_per_node=$2 muster_cpus_per_task=$3 muster_nodes=$4
    muster_forget
}

# The run's end, as its ranks ended.
muster_finish() { exit "${muster_interrupted:-$muster_status}"; }
