# Sends the signal number $2 to the ranks of the run $1 on this node that handle it: of each rank to the outermost process
# that does. Agents, daemons and shells around the ranks get nothing. Prints how many ranks are here, and how many got it.
export PATH="${PATH:+$PATH:}/usr/bin:/bin"
muster_run=$1 muster_signal=$2

# Prints one line for each process of the run that has a rank: "PID PARENT RANK CAUGHT", the mask of signals it handles.
muster_processes() {
    # shellcheck disable=SC2046  # names without a space
    grep -ls "RANK=" /dev/null $(grep -ls "MUSTER_SAVE_RUN=$muster_run" /proc/[0-9]*/environ) |
        while IFS=/ read -r _ _ muster_pid _; do
            tr '\0' '\n' <"/proc/$muster_pid/environ" 2>/dev/null | awk -F= -v run="$muster_run" -v pid="$muster_pid" '
                $1 == "MUSTER_SAVE_RUN" && $2 == run { ours = 1 }
                $1 == "RANK" { rank = $2 }
                END {
                    if (!ours || rank == "") exit
                    while ((getline text < ("/proc/" pid "/status")) > 0) {
                        split(text, fields, /[ \t]+/)
                        if (fields[1] == "PPid:") parent = fields[2]
                        if (fields[1] == "SigCgt:") caught = fields[2]
                    }
                    if (caught != "") print pid, parent + 0, rank, caught
                }'
        done
}

# Prints one line for each rank: "PID" of the process that gets the signal, or 0 where none handles it.
muster_receivers() {
    awk -v signal="$muster_signal" '
    function handles(mask, number,    digit, i) {
        digit = index("0123456789abcdef", substr(mask, length(mask) - int((number - 1) / 4), 1)) - 1
        for (i = (number - 1) % 4; i > 0; i--) digit = int(digit / 2)
        return digit % 2
    }
    {
        parent[$1] = $2
        rank[$1] = $3
        ranks[$3]
        # What handles every signal there is, as programs in Go do, is the engine of an image and not a rank.
        catches[$1] = handles($4, signal) && !(handles($4, 50) && handles($4, 51))
    }
    END {
        for (pid in rank) {
            if (!catches[pid]) continue
            above = parent[pid]
            while (above in rank && rank[above] == rank[pid] && !catches[above]) above = parent[above]
            if (above in rank && rank[above] == rank[pid]) continue
            receiver[rank[pid]] = pid
        }
        for (each in ranks) print receiver[each] + 0
    }'
}

# Whether process $1 still handles the signal: a Python that ends has none of its handlers any more, and would die of it.
muster_handles() {
    muster_caught=
    while read -r muster_word muster_value; do
        [ "$muster_word" != SigCgt: ] || muster_caught=${muster_value#????????}
    done <"/proc/$1/status"
    [ $((0x${muster_caught:-0} >> (muster_signal - 1) & 1)) -eq 1 ]
} 2>/dev/null

muster_processes | muster_receivers | {
    muster_ranks=0 muster_count=0
    while read -r muster_pid; do
        muster_ranks=$((muster_ranks + 1))
        [ "$muster_pid" -ne 0 ] && muster_handles "$muster_pid" && kill -"$muster_signal" "$muster_pid" 2>/dev/null &&
            muster_count=$((muster_count + 1))
    done
    printf '@told %s %s\n' "$muster_ranks" "$muster_count"
}
