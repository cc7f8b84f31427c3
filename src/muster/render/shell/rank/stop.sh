# Stops with the sentence $1 and the hint $2. It needs no other program, since an image may hold none.
muster_stop() {
    printf 'muster: error: %s\n\nhint: %s\n' "$1" "$2" >&2
    exit 2
}
