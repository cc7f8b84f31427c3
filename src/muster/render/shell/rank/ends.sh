# Where the script counts the ends (MUSTER_ENDS), the shell around the command writes into the file of its node that the
# command begins, and how it ended.
muster_ends=${MUSTER_ENDS:+$MUSTER_ENDS/${MUSTER_ATTEMPT:-1}.$muster_node_rank}
unset MUSTER_ENDS

# Writes the words $@ into that file. Its first line comes early, so that a full disk has room for the others.
muster_note() {
    [ -z "$muster_ends" ] || echo "$@" >>"$muster_ends"
} 2>/dev/null

# Writes that the command begins: the first rank of each node does.
muster_note_begin() {
    [ "${muster_local_rank:-0}" -ne 0 ] || muster_note "$muster_rank" begins
}

# Becomes the command $@. All processes that the command starts inherit the mark, which names this start on this node
# alone.
muster_marked() {
    [ -z "$muster_ends" ] || export MUSTER_MARK="$muster_ends"
    exec "$@"
}
