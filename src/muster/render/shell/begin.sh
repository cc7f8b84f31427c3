# The job's beginning: its id, its directory, its size, and nothing of what stood here before. $1: where it works; $2, $3:
# ranks of a node and CPUs of a rank (0: not asked for), as they were planned.
muster_begin() {
    # Ctrl-C, SIGTERM or a hang-up ends the ranks; whatever the launcher then says, this is what happened.
    trap 'muster_interrupted=130' INT
    trap 'muster_interrupted=143' TERM
    trap 'muster_interrupted=129' HUP
    [ -n "${SLURM_JOB_ID:-}" ] || muster_stop 'there is no Slurm job here' 'queue this file with sbatch, or run it inside salloc'
    muster_job=$SLURM_JOB_ID
    muster_find_run_directory
    muster_go_to "$1"
    muster_take_size "${@:2}"
    muster_forget
}

# The job's end, as its ranks ended.
muster_finish() { exit "${muster_interrupted:-$muster_status}"; }
