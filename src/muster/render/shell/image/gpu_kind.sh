# Finds the kind of GPUs that this node has, by a file of their driver; empty without GPUs. Result in $muster_kind.
muster_gpu_kind() {
    muster_kind=
    for muster_sign in @SIGNS@; do
        case $muster_sign in
        /*) [ -n "$muster_kind" ] || [ ! -e "$muster_sign" ] || muster_kind=$muster_maker ;;
        *) muster_maker=$muster_sign ;;
        esac
    done
}
