# The first name of a Slurm node list: hkn[0518-0520,0630],cpu1 -> hkn0518. Result in $muster_first.
muster_first_host() {
    muster_first=
    muster_list=$1
    while :; do
        muster_plain=${muster_list%%[[,]*}
        muster_first=$muster_first$muster_plain
        muster_list=${muster_list#"$muster_plain"}
        case $muster_list in
        '['*)
            muster_inside=${muster_list#'['}
            muster_inside=${muster_inside%%']'*}
            muster_first=$muster_first${muster_inside%%[,-]*}
            muster_list=${muster_list#*']'}
            ;;
        *) return ;;
        esac
    done
}

# A port from the ids of job $1 and step $2: neighbours in time differ, and it lies below the ephemeral range.
muster_port_from_ids() {
    muster_port=$((${MUSTER_PORT_LOW:-20000} + ($1 * 61 + $2) % ${MUSTER_PORT_COUNT:-12000}))
}

# Whether something on this host already listens on port $1 (state 0A in the kernel's tables).
muster_port_is_taken() {
    muster_hex=$(printf '%04X' "$1")
    for muster_table in /proc/net/tcp /proc/net/tcp6; do
        [ -r "$muster_table" ] || continue
        while read -r _ muster_local _ muster_state _; do
            case $muster_state:$muster_local in
            0A:*:"$muster_hex") return 0 ;;
            esac
        done <"$muster_table"
    done
    return 1
}
