# Tells whether there was a connection to MASTER_PORT: the kernel keeps a closed one for a minute. Unknown means yes.
muster_somebody_met() {
    command -v grep >/dev/null && [ -r /proc/net/tcp ] || return 0
    muster_hex=$(printf '%04X' "$MASTER_PORT")
    # Any state but 0A, listening.
    grep -Eqs "^ *[0-9]+: ([0-9A-F:]+ [0-9A-F]+:$muster_hex|[0-9A-F]+:$muster_hex [0-9A-F:]+) 0[1-9B] " /proc/net/tcp*
}

# Warns that the ranks ended well and never connected: each may have worked alone.
muster_look_for_meeting() {
    muster_somebody_met || printf \
        'muster: warning: the %s ranks have ended, and Muster saw no connection to %s:%s: %s\n\nhint: %s %s\n' \
        "$WORLD_SIZE" "$MASTER_ADDR" "$MASTER_PORT" \
        'each may have done the whole work alone, and overwritten what the others wrote' \
        'the script has to join its ranks: torch.distributed.init_process_group(), with muster.world(),' \
        'or what its framework has for it; --wireup dummy, if each is to work for itself' >&2
}

# Rank 0 calls it when its command has ended.
muster_at_end=
[ "$muster_rank" -ne 0 ] || muster_at_end=muster_look_for_meeting
