# Which CPUs the kernel grants this rank, and how many of the physical cores are its share.

# Finds the core of CPU $1, named by its first hardware thread. dash and busybox read byte by byte, and newer kernels
# (seen with 6.18) then return an empty list. In that case the numbers of package, die, cluster and core name the core.
# Result in $muster_core.
muster_core_of() {
    muster_folder=${MUSTER_SYS:-/sys}/devices/system/cpu/cpu$1/topology
    muster_core=
    [ ! -r "$muster_folder/thread_siblings_list" ] || read -r muster_core <"$muster_folder/thread_siblings_list" || :
    muster_core=${muster_core%%[,-]*}
    [ -z "$muster_core" ] || return 0
    for muster_name in physical_package_id die_id cluster_id core_id; do
        muster_number=
        [ ! -r "$muster_folder/$muster_name" ] || read -r muster_number <"$muster_folder/$muster_name" || :
        muster_core=$muster_core${muster_core:+.}${muster_number:--}
    done
    [ "$muster_core" != -.-.-.- ] || muster_core=$1
}

# Counts the CPUs of the list $1, such as 0-3,8 ($muster_cpu_count), and their cores ($muster_core_count).
muster_count_cpus() {
    muster_cpu_count=0
    muster_core_count=0
    muster_cores=,
    muster_ifs=$IFS
    IFS=,
    for muster_range in $1; do
        muster_cpu=${muster_range%-*}
        while [ "$muster_cpu" -le "${muster_range#*-}" ]; do
            muster_cpu_count=$((muster_cpu_count + 1))
            muster_core_of "$muster_cpu"
            case $muster_cores in
            *,"$muster_core",*) ;;
            *)
                muster_cores=$muster_cores$muster_core,
                muster_core_count=$((muster_core_count + 1))
                ;;
            esac
            muster_cpu=$((muster_cpu + 1))
        done
    done
    IFS=$muster_ifs
}

# Computes the number of threads of a rank. $1: its CPU mask, $2: the ranks of its node, $3: the CPUs asked for (0:
# none).
muster_threads_of_mask() {
    muster_online=
    [ ! -r "${MUSTER_SYS:-/sys}/devices/system/cpu/online" ] || read -r muster_online <"${MUSTER_SYS:-/sys}/devices/system/cpu/online" || :
    muster_count_cpus "$1"
    # A mask that is wider than one rank's share belongs to the whole node: the ranks of the node divide it.
    muster_sharing=1
    if [ "$1" = "$muster_online" ] ||
        { [ "$3" -gt 0 ] && [ "$muster_cpu_count" -gt "$3" ]; } ||
        { [ "$3" -eq 0 ] && [ "$muster_cpu_count" -ge "${SLURM_CPUS_ON_NODE:-1}" ]; }; then
        muster_sharing=$2
    fi
    muster_threads=$((muster_core_count / muster_sharing))
    [ "$3" -eq 0 ] || [ "$muster_threads" -le "$3" ] || muster_threads=$3
    [ "$muster_threads" -ge 1 ] || muster_threads=1
}

# Reads the CPU mask of this process, as the kernel writes it. Result in $muster_cpus.
muster_own_mask() {
    muster_cpus=
    while read -r muster_key muster_value; do
        [ "$muster_key" != Cpus_allowed_list: ] || muster_cpus=$muster_value
    done <"${MUSTER_PROC:-/proc}/self/status"
}
