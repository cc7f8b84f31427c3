# Describes a role of the job: its name, then words NAME=VALUE that muster_run_roles hands to its runner.
muster_role() {
    muster_roles+=("role=$1" "${@:2}")
}

# Becomes the runner of the roles, a Python program: it starts this script once for each role, over the role's nodes. ports: the
# range to choose from; python: the one to use where it is there.
muster_run_roles() {
    local muster_python='' muster_ports python
    muster_take 'muster_run_roles: python ports' "$@"
    rm -f "$muster_room"
    # A job that was told to end meanwhile starts no role.
    [ -z "${muster_interrupted:-}" ] || exit "$muster_interrupted"
    for python in "$muster_python" python3 /usr/libexec/platform-python python; do
        ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null ||
            exec "$python" -I -c "$muster_runner" "$0" "$muster_run_dir" "${muster_ports%-*}" \
                "$((${muster_ports#*-} - ${muster_ports%-*} + 1))" "${muster_roles[@]}"
    done
    muster_stop 'a job with roles needs a Python 3.6 on its first node' 'load a module that has one in your shell startup'
}
