# What the prologues share. POSIX sh with builtins only: the image may hold nothing but a shell.

muster_stop() {
    printf 'muster: error: %s\n\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

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

# How many tasks node $2 has, by Slurm's "4(x2),3". Result in $muster_tasks.
muster_tasks_of_node() {
    muster_tasks=
    muster_seen=0
    muster_ifs=$IFS
    IFS=,
    for muster_item in $1; do
        case $muster_item in
        *'(x'*)
            muster_times=${muster_item#*'(x'}
            muster_times=${muster_times%')'}
            ;;
        *) muster_times=1 ;;
        esac
        muster_seen=$((muster_seen + muster_times))
        if [ "$2" -lt "$muster_seen" ]; then
            muster_tasks=${muster_item%%'('*}
            break
        fi
    done
    IFS=$muster_ifs
}

# How many items a comma-separated list has. Result in $muster_count.
muster_count_items() {
    muster_count=0
    muster_ifs=$IFS
    IFS=,
    for muster_item in $1; do muster_count=$((muster_count + 1)); done
    IFS=$muster_ifs
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
