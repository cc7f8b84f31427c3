# Removes the unpacked image from every node, in a step of its own, if rank 0 left its mark. An image that another step
# of this job still uses stays; that step removes it.
muster_remove_unpacked() {
    local name=.muster-image-$muster_job mark=$muster_run_dir/.muster-image-$muster_job
    [ -e "$mark" ] || return 0
    # shellcheck disable=SC2016  # the shell on the nodes expands it
    local words=(sh -c 'for place in "${TMPDIR:-/tmp}/$1".*; do
        [ -d "$place" ] && [ -O "$place" ] && [ ! -L "$place" ] || continue
        read -r owner <"$place/owner" && kill -0 "$owner" 2>/dev/null && exit 1
        chmod -R u+rwX "$place"
        rm -rf "$place" || exit 1
    done' muster "$name")
    if [ -n "${SLURM_JOB_ID:-}" ]; then
        words=(srun --overlap ${muster_part:+"--het-group=$muster_part"} --nodes="$SLURM_JOB_NUM_NODES"
            --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --mpi=none --export=ALL --cpus-per-task=1 --input=none
            "${words[@]}")
    fi
    "${words[@]}" >/dev/null 2>&1 || return 0
    rm -f "$mark"
    rmdir "$muster_run_dir" "${muster_run_dir%/*}" 2>/dev/null
    return 0
}
