# A container of `PROGRAM run` gets nothing of the host's unless it is named: the words that follow `run` are collected
# here, each with a line break behind it, and put into the command at the end.
muster_container_more=

# One more word.
muster_container_adds() {
    muster_container_more=$muster_container_more$1'
'
}

# The variables of these names that are set; a value with a line break in it arrives, as only its name is a word.
muster_container_gets() {
    for muster_name in "$@"; do
        eval "[ -z \"\${$muster_name+set}\" ]" || muster_container_adds "--env=$muster_name"
    done
}

# The run directory and the job's own temporary directory, where they lie under none of these paths.
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

# What the MPI outside tells its ranks, for the MPI inside.
muster_container_joins() {
    for muster_name in $(env | sed -n 's/^\(OMPI_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(PMIX\{0,1\}2\{0,1\}_[A-Za-z0-9_]*\)=.*/\1/p'); do
        muster_container_gets "$muster_name"
    done
}

# Files that the ranks write belong to who started them.
muster_container_user() {
    muster_container_adds "--user=$(id -u):$(id -g)"
}

# GPUs are asked for and no profile says which: this node knows. $1: the words for CUDA's, $2: for ROCm's.
muster_container_gpus() {
    muster_flags=
    [ ! -e /dev/nvidiactl ] || muster_flags=$1
    [ ! -e /dev/kfd ] || muster_flags=$2
    for muster_word in $muster_flags; do muster_container_adds "$muster_word"; done
}

# The command with these words behind its `run`. An agent's command begins with the number of words that start Python.
# shellcheck disable=SC2016,SC2034  # the prologue runs it, where its own words are
muster_container_words='
muster_counted_words=
if [ -n "${muster_counted:-}" ]; then
    muster_counted_words=$1
    shift
fi
muster_left=$#
muster_added=0
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
        muster_added=$((muster_added + 1))
    done
    set +f
    IFS=$muster_ifs
done
[ -z "$muster_counted_words" ] || set -- "$((muster_counted_words + muster_added))" "$@"'
