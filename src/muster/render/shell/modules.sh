# The first of these modules that is there, in one spelling or another; the last where none is, for `module` to say so.
muster_first() {
    while [ $# -gt 1 ] && ! module --terse avail "$1" 2>&1 | grep -qi "^$1\(/\|(\|$\)"; do
        shift
    done
    printf '%s' "$1"
}

# What there is of the module $1, for the sentence when a version of it is gone. `module` speaks on either stream, and
# marks what is loaded (seen with Lmod 8.6 and Environment Modules 5.2).
muster_versions() {
    local there
    there=$(module --terse avail "$1" 2>&1 | grep -i "^$1\(/\|$\)" | cut -d ' ' -f 1 | tr '\n' ' ')
    if [ -n "$there" ]; then
        printf 'there are: %s' "${there% }"
    else
        printf 'there is no module called %s; module avail lists what is there' "$1"
    fi
}

# The modules, in this order.
muster_load() {
    local name
    for name in "$@"; do
        module load "$name" || muster_stop "module load $name failed" "$(muster_versions "${name%%/*}")"
    done
}
