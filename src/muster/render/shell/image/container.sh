# A container that `PROGRAM run` starts sees nothing of the host that is not named. These functions collect the words
# for `run`, one on each line. The end of the prologue puts them into the command.
muster_container_more=

# Adds the word $1.
muster_container_adds() {
    muster_container_more=$muster_container_more$1'
'
}

# Passes on the variables with these names that are set. The word holds only the name, so a value may hold a line break.
muster_container_gets() {
    for muster_name in "$@"; do
        eval "[ -z \"\${$muster_name+set}\" ]" || muster_container_adds "--env=$muster_name"
    done
}

# Binds the run directory and the job's temporary directory, unless one of the paths $@ already holds them.
muster_container_binds() {
    for muster_path in "${MUSTER_RUN_DIR:-}" "${TMPDIR:-}"; do
        [ -d "$muster_path" ] || continue
        for muster_bound in "$@"; do
            case $muster_path/ in
            "$muster_bound"/*) continue 2 ;;
            esac
        done
        muster_container_adds "--volume=$muster_path:$muster_path"
    done
}

# Passes on the variables by which the MPI of the host identifies its ranks, for the MPI in the container.
muster_container_joins() {
    for muster_name in $(env |
        sed -n 's/^\(OMPI_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(PMIX\{0,1\}2\{0,1\}_[A-Za-z0-9_]*\)=.*/\1/p'); do
        muster_container_gets "$muster_name"
    done
}

# Makes the files that the ranks write belong to the user who started them.
muster_container_user() {
    muster_container_adds "--user=$(id -u):$(id -g)"
}

# Puts the collected words behind `run`.
# shellcheck disable=SC2016,SC2034  # the prologue runs this text with the words of its command
muster_container_words='
muster_left=$#
muster_run=
while [ "$muster_left" -gt 0 ]; do
    set -- "$@" "$1"
    muster_word=$1
    shift
    muster_left=$((muster_left - 1))
    [ -z "$muster_run" ] && [ "$muster_word" = run ] || continue
    muster_run=1
    muster_ifs=$IFS
    IFS="
"
    set -f
    for muster_word in $muster_container_more; do
        set -- "$@" "$muster_word"
    done
    set +f
    IFS=$muster_ifs
done'
