# Changes to $1 in the run directory: the copy of the project that `muster submit` put there.
muster_go_to() {
    cd -P "$muster_run_dir/$1" || muster_stop "the copy of the project is not in $muster_run_dir" \
        'muster submit makes the copy; without --snapshot the script runs in the project itself'
}
