# A rank of torchrun. The agent has set who this rank is.
export NODE_RANK="$GROUP_RANK"
[ "$RANK" -eq 0 ] || exec </dev/null
# The output goes into the keeper's pipes, after a line that names the rank, unless the agent starts the rank once more.
# If the pipes cannot be opened, it goes to the agent's own streams.
muster_pipe=$((LOCAL_RANK * 2 + 400))
[ "${muster_restarted:=${TORCHELASTIC_RESTART_COUNT:-0}}" -eq 0 ] || [ -z "${MUSTER_PIPES:-}" ] || {
    exec >"$MUSTER_PIPES/$muster_pipe" 2>"$MUSTER_PIPES/$((muster_pipe + 1))"
    unset MUSTER_PIPES
}
if [ -n "${MUSTER_PIPES:-}" ] && { printf '%s %s\n' "$RANK" "$$" >"$MUSTER_PIPES/$muster_pipe" &&
    : >"$MUSTER_PIPES/$((muster_pipe + 1))"; } 2>/dev/null; then
    exec >"$MUSTER_PIPES/$muster_pipe" 2>"$MUSTER_PIPES/$((muster_pipe + 1))"
    printf '%s %s\n' "$RANK" "$$" >&2
fi
unset MUSTER_PIPES
exec "$@"
