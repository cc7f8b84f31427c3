# Starts the door of this host, which lets nobody else's processes reach the ranks' store (docs/guides/closed.md). The
# first $1 words of the command start the door; the first rank of the host runs them, and the door ends with that rank.
muster_words=$1
shift
if [ "$muster_local_rank" -eq 0 ]; then
    (
        muster_rest=$(($# - muster_words))
        while [ "$muster_words" -gt 0 ]; do
            set -- "$@" "$1"
            shift
            muster_words=$((muster_words - 1))
        done
        shift "$muster_rest"
        exec </dev/null
        # The kernel ends the door with its rank, also while Python starts: a step lasts while its output is held open.
        ! setpriv --pdeathsig clear true 2>/dev/null || set -- setpriv --pdeathsig KILL "$@"
        [ "$muster_rank" -ne 0 ] || exec "$@" store "$muster_port" "$$" "$muster_nodes"
        exec >/dev/null 2>&1
        exec "$@" node "$muster_port" "$$" "$muster_address"
    ) &
fi
shift "$muster_words"
unset MUSTER_DOOR_KEY
# torch connects to a store that stands already, on rank 0 too.
export TORCHELASTIC_USE_AGENT_STORE=True
