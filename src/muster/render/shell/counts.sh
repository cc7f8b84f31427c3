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
