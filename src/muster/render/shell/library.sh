# The rank library comes last: an environment's own `muster`, and everything else, is found first.
muster_add_library() {
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$1"
}
