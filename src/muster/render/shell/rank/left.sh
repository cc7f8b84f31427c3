# When the last rank of this node has ended: ends the processes of this start that left their rank's group (a daemon,
# setsid). Slurm ends them only where a cgroup holds them, and srun waits for all that hold its output.
# shellcheck disable=SC2317  # muster_when_over names it
muster_end_left() {
    [ -n "$muster_ends" ] && [ -r "$muster_ends" ] || return 0
    muster_count=0
    while read -r _ muster_value; do
        [ "$muster_value" = begins ] || muster_count=$((muster_count + 1))
    done <"$muster_ends"
    [ "$muster_count" -ge "${muster_local_size:-1}" ] || return 0
    muster_try=0
    while muster_find_left && [ "$muster_try" -lt 20 ]; do
        # shellcheck disable=SC2086  # numbers
        case $muster_try in 0) muster_first=$muster_count && kill $muster_left ;; 19) kill -KILL $muster_left ;; esac
        sleep 0.1 || sleep 1
        muster_try=$((muster_try + 1))
    done 2>/dev/null
    [ "$muster_try" -ne 0 ] || return 0
    read -r muster_here </proc/sys/kernel/hostname
    printf 'muster: %s processes that had left their rank were ended on %s\n' \
        "$muster_first" "${SLURMD_NODENAME:-$muster_here}" >&2
}

# Finds the processes of this user and job with the mark, which a job that a rank has submitted inherits. Results in
# $muster_left and $muster_count.
# shellcheck disable=SC2317
muster_find_left() {
    muster_left='' muster_count=0
    muster_files=$(grep -lszxF -e "MUSTER_MARK=$muster_ends" /proc/[0-9]*/environ 2>/dev/null)
    for muster_file in $muster_files; do
        [ -O "$muster_file" ] || continue
        grep -qszxF -e "SLURM_JOB_ID=${SLURM_JOB_ID:-}" "$muster_file" || continue
        muster_file=${muster_file#/proc/}
        muster_left="$muster_left ${muster_file%/environ}" muster_count=$((muster_count + 1))
    done
    [ -n "$muster_left" ]
}

# The shell around a command calls it when the command has ended.
muster_when_over=muster_end_left
