# Once on every node before its ranks: the first local rank runs it, the others wait for its end, not for a sleep.
muster_node_prologue() {
    muster_mark=/tmp/.muster-$muster_id-$muster_port
    if [ "$muster_local_rank" -eq 0 ]; then
        "$@" </dev/null
        muster_status=$?
        (umask 077 && echo "$muster_status" >"$muster_mark.new" && mv -f "$muster_mark.new" "$muster_mark")
    fi
    while [ ! -e "$muster_mark" ]; do sleep 0.1 2>/dev/null || sleep 1; done
    read -r muster_status <"$muster_mark"
    if [ "$muster_status" -ne 0 ]; then
        read -r muster_here </proc/sys/kernel/hostname
        muster_stop "the node prologue failed on $muster_here with status $muster_status: $*" 'run it on that node by hand to see why'
    fi
}
