# Makes the folder of this job, and prints it: each rank, or agent of torchrun, has its end written there, in the file
# ATTEMPT.NODE. Where none can be made, srun's word on lost nodes is all that is known.
muster_ends() {
    local folder
    printf -v folder '%s/%s.%(%s)T.%s' "${muster_ends_dir:-$muster_run_dir/ranks}" "$SLURM_JOB_ID" -1 "$$"
    (umask 077 && mkdir -p "$folder") 2>/dev/null && printf '%s' "$folder" && "${muster_tell:-:}" ends "$folder"
}

# Makes a launcher's 0 another status where a process did not say that it ended with 0: srun says 0 where a rank died
# with its host. of: ranks, or agents of nodes.
muster_count_ends() {
    local muster_of each=$muster_ntasks_per_node
    muster_take 'muster_count_ends: of' "$@"
    [ "$muster_of" = ranks ] || each=1
    [ "$muster_status" -ne 0 ] || [ -n "${muster_interrupted:-}" ] || muster_read_ends
    [ "$muster_status" -eq 0 ] || return
    # The memory of nodes reads on which nodes a script ran well.
    [ -z "${muster_logs:-}" ] ||
        (umask 077 && printf '%(%s)T\t%s\n' -1 "$SLURM_JOB_NODELIST" >>"$muster_run_dir/well") 2>/dev/null
    # Beside a run directory that is not made, the end of the script removes it.
    [ -z "$MUSTER_ENDS" ] || [ -n "${muster_ends_dir:-}" ] ||
        { rm -rf "$MUSTER_ENDS" && rmdir "${MUSTER_ENDS%/*}"; } 2>/dev/null
}
