# Reports every rank of job $1 on this node, or only rank $3: its identity, and its stack by py-spy ($2; -: this node
# has no py-spy). $4 and the words after it are options of py-spy. A rank is the first Python among the processes with
# its RANK.
export PATH="${PATH:+$PATH:}/usr/bin:/bin"
muster_job=$1 muster_spy=$2 muster_only=$3
shift 3
read -r muster_host </proc/sys/kernel/hostname

# Prints one line for each process of the job that has a rank: "PID PARENT RANK WORLD_SIZE 1", with 1 for Python, else
# 0.
muster_processes() {
    for muster_process in /proc/[0-9]*; do
        [ -O "$muster_process" ] || continue
        muster_found=$(tr '\0' '\n' <"$muster_process/environ" 2>/dev/null | awk -F= -v job="$muster_job" '
            $1 == "SLURM_JOB_ID" || $1 == "MUSTER_JOB" { if ($2 == job) ours = 1 }
            $1 == "RANK" { rank = $2 }
            $1 == "WORLD_SIZE" { size = $2 }
            END { if (ours && rank != "") print rank, size + 0 }')
        [ -n "$muster_found" ] || continue
        muster_program=$(readlink "$muster_process/exe" 2>/dev/null)
        case ${muster_program##*/} in python* | pypy*) muster_python=1 ;; *) muster_python=0 ;; esac
        muster_parent=$(awk '$1 == "PPid:" { print $2 }' "$muster_process/status" 2>/dev/null)
        printf '%s %s %s %s\n' "${muster_process#/proc/}" "${muster_parent:-0}" "$muster_found" "$muster_python"
    done
}

muster_processes | awk '
    { parent[$1] = $2; rank[$1] = $3; size[$1] = $4; python[$1] = $5; order[++count] = $1 }
    END {
        for (i = 1; i <= count; i++) {
            pid = order[i]
            if (!python[pid]) continue
            above = parent[pid]
            while (above in rank && !(python[above] && rank[above] == rank[pid])) above = parent[above]
            if (!(above in rank)) print pid, rank[pid], size[pid]
        }
    }' | while read -r muster_pid muster_rank muster_size; do
    [ "$muster_only" = - ] || [ "$muster_only" = "$muster_rank" ] || continue
    muster_state=$(awk '$1 == "State:" { print $2 }' "/proc/$muster_pid/status" 2>/dev/null)
    muster_waits=$(cat "/proc/$muster_pid/wchan" 2>/dev/null)
    printf '@rank %s %s %s %s %s %s\n' \
        "$muster_rank" "$muster_size" "$muster_host" "$muster_pid" "${muster_state:-?}" "${muster_waits:-0}"
    if [ "$muster_spy" = - ]; then
        printf 'py-spy is not there\n'
    else
        # A process that is stopped, or stuck in the kernel, does not answer a tracer: its memory is read without
        # stopping it.
        case $muster_state in [TtD]) muster_how=--nonblocking ;; *) muster_how= ;; esac
        # shellcheck disable=SC2086  # nothing, or one option
        timeout 20 "$muster_spy" dump --json $muster_how "$@" --pid "$muster_pid" 2>&1 </dev/null
    fi
    printf '\n@end\n'
done
