# Describes a role of the job: its name, then words NAME=VALUE that muster_run_roles hands to the supervisor.
muster_role() {
    muster_roles+=("role=$1" "${@:2}")
}

# Becomes the supervisor of the roles, by the first Python there is: $1, or another one of 3.6 or later. It starts this
# script once for each role, over the role's nodes. The words after $2, the folder of the supervisor, are the job's.
muster_run_roles() {
    local program
    rm -f "$muster_room"
    # A job that was told to end meanwhile starts no role.
    [ -z "${muster_interrupted:-}" ] || exit "$muster_interrupted"
    for program in "$1" python3 /usr/libexec/platform-python python; do
        [ -r "$2/__main__.py" ] && "$program" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null || continue
        exec "$program" -I -S "$2" "file=$0" "run=$muster_run_dir" "${@:3}" "${muster_roles[@]}"
    done
    muster_stop "a job with roles needs Python 3.6 or later and $2 on $(uname -n)" \
        'install Muster where all nodes see it, and load a module that has such a Python in your shell startup'
}
