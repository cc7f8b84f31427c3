# Checks the torch of the image $1 from inside, where the prologue itself runs in the image. $2: the GPUs of the node.
muster_stack_here() {
    [ "${muster_local_rank:-0}" -eq 0 ] || return 0
    muster_stack=$(eval "$muster_stack_text")
    muster_stack_fits "$1" "$2" "${muster_stack##*stack=}"
}
