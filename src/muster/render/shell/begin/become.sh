# Becomes the program of Muster's folder $2, by the first Python there is: $1, or another one of 3.6 or later. The words
# after it are the program's. Returns where this host lacks one of the two.
muster_become() {
    [ -r "$2/__main__.py" ] && muster_find_python "$1" python3 /usr/libexec/platform-python python || return
    exec "$muster_python" -I -S "${@:2}"
}
