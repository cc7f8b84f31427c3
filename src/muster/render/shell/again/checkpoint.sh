# Finds the newest whole checkpoint in the folder $1: MUSTER_CHECKPOINT is its path, or empty where there is none. A newer
# one that is half written is named on stderr and passed over.
muster_find_checkpoint() {
    local program found kind rest
    muster_saves=$1
    for program in "${MUSTER_PYTHON:-}" python3 python; do
        command -v "$program" >/dev/null && break
        program=
    done
    muster_checkpoint='' MUSTER_CHECKPOINT='' muster_searched=''
    if [ -z "$program" ]; then
        printf 'muster: warning: this host has no Python, and no process looks for the newest checkpoint in %s\n' "$1" >&2
    elif [ -e "$1" ]; then
        found=$("$program" -I -S -c "$muster_search" "$1" ${muster_logs:+"$muster_run_dir/looks"} </dev/null) && muster_searched=1 || printf 'muster: warning: %s cannot be searched\n' "$1" >&2
        while read -r kind rest; do
            case $kind in
            half) printf 'muster: the checkpoint %s; it is passed over\n' "$rest" >&2 ;;
            whole) muster_checkpoint=$rest MUSTER_CHECKPOINT=${rest#* } ;;
            esac
        done <<<"$found"
    fi
    export MUSTER_CHECKPOINT
}
