# The first rank that its shell, or mpirun, tells of in these files. Results in $muster_failed_host and $muster_failed_rank.
muster_find_failed() {
    read -r muster_failed_rank muster_failed_host < <(sed -n -E \
        -e 's/^(\[[0-9,]*\](<std[a-z]*>:| ))?muster: rank ([0-9]+) on ([^ ]+) ended with status .*/\3 \4/p' \
        -e 's/.* noticed that process rank ([0-9]+) with PID [0-9]+ on node ([^ ]+) exited on .*/\1 \2/p' "$@" | head -n 1)
    [ -z "$muster_failed_host" ] || return 0
    # Its node may have died, or Slurm ended the daemon with the step.
    muster_failed_host=$(sed -n -E 's/.*Remote daemon: .* on node ([^ ]+).*/\1/p' "$@" | head -n 1)
    muster_failed_daemon="mpirun lost its daemon${muster_failed_host:+ on $muster_failed_host}"
    [ -n "$muster_failed_host" ] || grep -qs "^muster: Slurm ended the step of mpirun's daemons" "$@" || muster_failed_daemon=''
}
