# Where the prologue itself runs in the image $1: it looks here. $2: as above.
muster_stack_here() {
    [ "${muster_local_rank:-0}" -eq 0 ] || return 0
    muster_stack=$(eval "$muster_stack_text")
    muster_stack_fits "$1" "$2" "${muster_stack##*stack=}"
}
