# Turns on the engine's support for this node's GPUs, where the site profile does not name their kind. $1: the prefix of
# its variables; then for each kind the end of one, as cuda=NV.
muster_image_gpus() {
    muster_prefix=$1
    shift
    muster_gpu_kind
    for muster_word in "$@"; do
        [ "${muster_word%%=*}" != "$muster_kind" ] || export "${muster_prefix}_${muster_word#*=}=1"
    done
}
