# The program $1 and the image $2 are here.
muster_image_needs() {
    read -r muster_here </proc/sys/kernel/hostname
    command -v "$1" >/dev/null || muster_stop "the node $muster_here has no $1" \
        'load the module that has it with --module, or name another engine with --engine'
    case $2 in
    /*) [ -e "$2" ] || muster_stop "the node $muster_here does not see the image $2" \
        'put it on a file system that the compute nodes see' ;;
    esac
}

# Every path that is to be bound is here.
muster_image_sees() {
    for muster_path in "$@"; do
        [ -e "$muster_path" ] || muster_stop "the node $muster_here has no $muster_path, which the image is to see" \
            'give another path with --bind, or correct the site profile'
    done
}
