# What the prologues share. POSIX sh with builtins only: the image may hold nothing but a shell.

# End with the sentence $1 and the hint $2.
muster_stop() {
    printf 'muster: error: %s\n\nhint: %s\n' "$1" "$2" >&2
    exit 2
}
