# These functions are shared by all prologues: POSIX sh with builtins only, since an image may hold no other program.

# Stops with the sentence $1 and the hint $2.
muster_stop() {
    printf 'muster: error: %s\n\nhint: %s\n' "$1" "$2" >&2
    exit 2
}
