# Prints the first of the modules $@ that exists, in upper or lower case. If none exists, it prints the last one, and
# `module` reports it.
muster_first() {
    while [ $# -gt 1 ] && ! module --terse avail "$1" 2>&1 | grep -qi "^$1\(/\|(\|$\)"; do
        shift
    done
    printf '%s' "$1"
}

# Prints the versions of the module $1, for the hint when the wanted version is missing. `module` writes to either
# stream and marks what is loaded (seen with Lmod 8.6 and Environment Modules 5.2).
muster_versions() {
    local there
    there=$(module --terse avail "$1" 2>&1 | grep -i "^$1\(/\|$\)" | cut -d ' ' -f 1 | tr '\n' ' ')
    if [ -n "$there" ]; then
        printf 'these versions exist: %s' "${there% }"
    else
        printf 'no module is called %s; module avail lists all modules' "$1"
    fi
}

# Loads the modules $@ in this order.
muster_load() {
    local name
    for name in "$@"; do
        module load "$name" || muster_stop "module load $name failed" "$(muster_versions "${name%%/*}")"
    done
}
