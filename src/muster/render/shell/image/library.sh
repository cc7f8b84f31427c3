# Puts the rank library last on PYTHONPATH: Python finds everything else first, also another `muster` in the
# environment.
muster_add_library() {
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$1"
}
