# Counts the CPUs of the list $1, such as 0-3,8, and their cores. The numbers below name a core: of thread_siblings_list
# newer kernels (seen with 6.18) return nothing to dash and busybox, which read byte by byte.
muster_count_cpus() {
    muster_cpu_count=0 muster_core_count=0 muster_cores=,
    muster_ifs=$IFS && IFS=,
    for muster_range in $1; do
        muster_cpu=${muster_range%-*}
        while [ "$muster_cpu" -le "${muster_range#*-}" ]; do
            muster_cpu_count=$((muster_cpu_count + 1))
            muster_core=
            for muster_name in physical_package_id die_id cluster_id core_id; do
                muster_number='' muster_file=${MUSTER_SYS:-/sys}/devices/system/cpu/cpu$muster_cpu/topology/$muster_name
                [ ! -r "$muster_file" ] || read -r muster_number <"$muster_file" || :
                muster_core=$muster_core.$muster_number
            done
            [ "$muster_core" != .... ] || muster_core=$muster_cpu
            case $muster_cores in
            *,"$muster_core",*) ;;
            *) muster_cores=$muster_cores$muster_core, muster_core_count=$((muster_core_count + 1)) ;;
            esac
            muster_cpu=$((muster_cpu + 1))
        done
    done
    IFS=$muster_ifs
}

# Finds the threads of a rank by its CPU mask, $muster_cpus. $1: ranks of its node, $2: the CPUs asked for (0: none).
muster_find_threads() {
    muster_cpus=
    while read -r muster_key muster_value; do
        [ "$muster_key" != Cpus_allowed_list: ] || { muster_cpus=$muster_value && break; }
    done <"${MUSTER_PROC:-/proc}/self/status"
    muster_count_cpus "$muster_cpus"
    # A mask that is wider than one rank's share belongs to the whole node: the ranks of the node divide it.
    muster_own=$2
    [ "$muster_own" -gt 0 ] || muster_own=$((${SLURM_CPUS_ON_NODE:-1} - 1))
    muster_threads=$muster_core_count
    [ "$muster_cpu_count" -le "$muster_own" ] || muster_threads=$((muster_core_count / $1))
    [ "$2" -eq 0 ] || [ "$muster_threads" -le "$2" ] || muster_threads=$2
    [ "$muster_threads" -ge 1 ] || muster_threads=1
}
