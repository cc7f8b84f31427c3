# A line of the job was decided for another size.
muster_other_size() {
    muster_stop "$1" 'write the script anew for this size: muster plan'
}
