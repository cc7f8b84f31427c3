# Makes sure that this shell knows `module`; if it does not, it reads the files $@.
muster_modules() {
    local file
    ! command -v module >/dev/null || return 0
    for file in "$@"; do
        # shellcheck disable=SC1090  # the file belongs to the host
        . "$file" || muster_stop "this host has no modules: $* cannot be read" \
            'omit --module, or correct the site profile'
    done
}

# Adds the directory $1 to the places where `module` looks.
muster_use() {
    module use "$1" || muster_stop "module use $1 failed" 'is the directory there?'
}

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

# Loads the modules $@ in this order; of NAME|OTHER the first that exists.
muster_load() {
    local wanted name alternatives
    for wanted in "$@"; do
        IFS='|' read -ra alternatives <<<"$wanted"
        name=$(muster_first "${alternatives[@]}")
        module load "$name" || muster_stop "module load ${wanted//|/ or } failed" "$(muster_versions "${name%%/*}")"
    done
}
