# Changes to the working directory of the ranks.
muster_go_to() {
    cd "$1" || muster_stop "the working directory $1 does not exist" \
        'use a file system that the compute nodes see, or --chdir'
}
