# Stops with the sentence $1: a path that the job needs is not there.
muster_not_there() {
    muster_stop "$1" 'is it on a file system that the compute nodes see?'
}
