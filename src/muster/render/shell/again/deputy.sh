# A job with spare nodes outlives the host of its script, and then stands without a script until its time is over. A deputy
# on another node prevents that: it hears from the script every ten seconds.
# shellcheck disable=SC2154  # another part of the script sets the text of the deputy

# Starts the deputy on node $1, if there is none, or the one there was has ended.
muster_start_deputy() {
    [ "$1" != "$SLURMD_NODENAME" ] || return 0
    [ -z "${muster_deputized:-}" ] || ! kill -0 "$muster_deputized" 2>/dev/null || return 0
    {
        trap - TERM INT HUP USR1
        while sleep 10 && echo; do :; done 2>/dev/null | srun --overlap --job-name=muster-deputy --nodes=1 --nodelist="$1" --ntasks=1 \
            --ntasks-per-node=1 --cpus-per-task=1 --mem=0 --gres=none --mpi=none --quiet --export=NONE --chdir=/ \
            /bin/bash -c "$muster_deputy" muster "$SLURMD_NODENAME" "$muster_output" 2>/dev/null
        [ "${PIPESTATUS[1]}" -lt 128 ] && [ "$SECONDS" -lt 60 ] && kill -0 "$$" 2>/dev/null &&
            printf 'muster: note: no deputy could be started on %s: if the host of this script dies, the job stands still\n' "$1" >&2
    } </dev/null >/dev/null &
    muster_deputized=$!
}
