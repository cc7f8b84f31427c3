# Adds the words for this node's GPUs, where the site profile does not name their kind. Each of $@: KIND=WORDS.
muster_container_gpus() {
    muster_gpu_kind
    for muster_words in "$@"; do
        [ "${muster_words%%=*}" = "$muster_kind" ] || continue
        for muster_word in ${muster_words#*=}; do muster_container_adds "$muster_word"; done
    done
}
