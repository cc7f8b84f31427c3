# Finds a Python of 3.6 or later: the first of the programs $@ that is one. Result in $muster_python; fails without one.
muster_find_python() {
    for muster_python in "$@"; do
        "$muster_python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null && return
    done
    muster_python=
    return 1
}
