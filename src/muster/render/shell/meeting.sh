# Finds the first name of the Slurm node list $1: hkn[0518-0520,0630],cpu1 -> hkn0518. Result in $muster_first.
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

# Computes a port from the ids of job $1 and step $2. Jobs that follow each other get different ports, all of them below
# the ephemeral range. Result in $muster_port.
muster_port_from_ids() {
    muster_port=$((${MUSTER_PORT_LOW:-20000} + ($1 * 61 + $2) % ${MUSTER_PORT_COUNT:-12000}))
}

# Succeeds if a program on this host already listens on port $1.
muster_port_is_taken() {
    muster_listening=$(ss -Hltn "sport = :$1" 2>/dev/null || muster_listening_in_tables "$1")
    [ -n "$muster_listening" ]
}

# Finds listeners on port $1 in the kernel's tables (0A: listening), for hosts without ss. With 4,000 open sockets grep
# takes 3 ms; a shell, which reads line by line, takes 0.8 s (dash) or 24 s (bash).
muster_listening_in_tables() {
    muster_hex=$(printf '%04X' "$1")
    if command -v grep >/dev/null; then
        grep -hs ":$muster_hex [0-9A-F]*:[0-9A-F]* 0A " /proc/net/tcp /proc/net/tcp6
        return
    fi
    for muster_table in /proc/net/tcp /proc/net/tcp6; do
        [ -r "$muster_table" ] || continue
        while read -r _ muster_local _ muster_state _; do
            case $muster_state:$muster_local in
            0A:*:"$muster_hex") echo "$muster_local" && return ;;
            esac
        done <"$muster_table"
    done
}
