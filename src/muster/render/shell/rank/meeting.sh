# Finds the first name of the Slurm node list $1: hkn[0518-0520,0630],cpu1 -> hkn0518. Result in $muster_first.
muster_first_host() {
    muster_first=${1%%[[,]*}
    muster_list=${1#"$muster_first"}
    while [ "${muster_list#'['}" != "$muster_list" ]; do
        muster_inside=${muster_list#'['}
        muster_list=${muster_list#*']'}
        muster_name=${muster_list%%[[,]*}
        muster_first=$muster_first${muster_inside%%[],-]*}$muster_name
        muster_list=${muster_list#"$muster_name"}
    done
}

# Computes a port below the ephemeral range, another one for the next job, from the ids of job $1 and step $2.
muster_port_from_ids() {
    muster_port=$((${MUSTER_PORT_LOW:-20000} + ($1 * 61 + $2) % ${MUSTER_PORT_COUNT:-12000}))
}

# Succeeds if a program on this host listens on port $1, by the kernel's tables (0A: listening). Without grep, the port
# counts as free: a shell would read 4,000 open sockets for 24 s. grep is looked for on the node's own disk first.
muster_port_is_taken() {
    PATH=/usr/bin:/bin:$PATH grep -qs ":$(printf '%04X' "$1") [0-9A-F]*:[0-9A-F]* 0A " /proc/net/tcp* 2>/dev/null
}
