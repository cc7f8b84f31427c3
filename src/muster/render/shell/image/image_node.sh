# Checks that this node has the program $1 and sees the image $2.
muster_image_needs() {
    read -r muster_here </proc/sys/kernel/hostname
    command -v "$1" >/dev/null || muster_stop "the node $muster_here has no $1" \
        'load its module with --module, or name another engine with --engine'
    case $2 in
    /*) [ -e "$2" ] || muster_stop "the node $muster_here does not see the image $2" \
        'put the image on a file system that the compute nodes see' ;;
    esac
}

# Checks that this node has every path that is bound into the image.
muster_image_sees() {
    for muster_path in "$@"; do
        [ -e "$muster_path" ] || muster_stop "the node $muster_here has no $muster_path, but the image has to see it" \
            'give another path with --bind, or correct the site profile'
    done
}
