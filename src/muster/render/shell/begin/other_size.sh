# Ends a job that runs with another size than it was planned for, with the sentence $1.
muster_other_size() {
    muster_stop "$1" 'write a new script for this size with muster plan'
}
