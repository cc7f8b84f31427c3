# Describes a role of the job: its name, then words NAME=VALUE that muster_run_roles hands to the supervisor.
muster_role() {
    muster_roles+=("role=$1" "${@:2}")
}

# Becomes the supervisor of the roles in the folder $2, by the Python $1 or another one. It starts this script once for
# each role, over the role's nodes. The words after them are the job's.
muster_run_roles() {
    rm -f "$muster_room"
    # A job that was told to end meanwhile starts no role.
    [ -z "${muster_interrupted:-}" ] || exit "$muster_interrupted"
    muster_become "$1" "$2" "file=$0" "run=$muster_run_dir" "${@:3}" "${muster_roles[@]}"
    muster_stop "a job with roles needs Python 3.6 or later and $2 on $(uname -n)" \
        'install Muster where all nodes see it, and load a module that has such a Python in your shell startup'
}
