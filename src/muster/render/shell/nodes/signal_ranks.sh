# Sends the signal number $2 to the ranks of the run $1 on this node that handle it: of each rank to the outermost
# process that does. Other programs around the ranks get nothing. Prints how many ranks are here, and how many got it.
export PATH="${PATH:+$PATH:}/usr/bin:/bin"
muster_run=$1 muster_signal=$2

# Prints one line for each rank: "PID" of the process that gets the signal, or 0 where none handles it.
muster_receivers() {
    awk -v signal="$muster_signal" '
    function handles(mask, number,    digit, i) {
        digit = index("0123456789abcdef", substr(mask, length(mask) - int((number - 1) / 4), 1)) - 1
        for (i = (number - 1) % 4; i > 0; i--) digit = int(digit / 2)
        return digit % 2
    }
    $6 != "" {
        many++
        parent[$1] = $2
        rank[$1] = $3
        ranks[$3]
        # What handles every signal there is, as programs in Go do, is the engine of an image and not a rank.
        catches[$1] = handles($6, signal) && !(handles($6, 50) && handles($6, 51))
    }
    END {
        for (pid in rank) {
            if (!catches[pid]) continue
            above = parent[pid]
            # Numbers are used again: a parent that was read later may be a child by then, and the way up a circle.
            for (up = 0; up < many && above in rank && rank[above] == rank[pid] && !catches[above]; up++)
                above = parent[above]
            if (above in rank && rank[above] == rank[pid]) continue
            receiver[rank[pid]] = pid
        }
        for (each in ranks) print receiver[each] + 0
    }'
}

# Whether process $1 still handles the signal: a Python that ends has lost its handlers, and would die of it.
muster_handles() {
    muster_caught=
    while read -r muster_word muster_value; do
        [ "$muster_word" != SigCgt: ] || muster_caught=${muster_value#????????}
    done <"/proc/$1/status"
    [ $((0x${muster_caught:-0} >> (muster_signal - 1) & 1)) -eq 1 ]
} 2>/dev/null

muster_processes "MUSTER_SAVE_RUN=$muster_run" "MUSTER_SAVE_RUN=$muster_run" | muster_receivers | {
    muster_ranks=0 muster_count=0
    while read -r muster_pid; do
        muster_ranks=$((muster_ranks + 1))
        [ "$muster_pid" -ne 0 ] && muster_handles "$muster_pid" && kill -"$muster_signal" "$muster_pid" 2>/dev/null &&
            muster_count=$((muster_count + 1))
    done
    printf '@told %s %s\n' "$muster_ranks" "$muster_count"
}
