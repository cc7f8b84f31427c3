# Stops with the sentence $1 and the hint $2. It needs no other program, since an image may hold none.
muster_stop() {
    printf '%s\n' "muster: error: $1" '' "hint: $2" ${muster_who:+"muster: rank $muster_who ended with status 2"} >&2
    exit 2
}
