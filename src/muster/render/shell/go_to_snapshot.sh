# The copy of the project that submit has laid into the run directory, by its name there.
muster_go_to() {
    cd -P "$muster_run_dir/$1" || muster_stop "the copy of the project is not in $muster_run_dir" \
        'muster submit makes it; without --snapshot the script runs where the project lies'
}
