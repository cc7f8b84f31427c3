# The working directory of the ranks.
muster_go_to() {
    cd "$1" || muster_stop "the working directory $1 is not there" 'use a file system that the compute nodes see, or --chdir'
}
