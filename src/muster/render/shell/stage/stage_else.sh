# Stops a job that has not read how copies are staged, before any rank starts.
muster_stage_begin() {
    muster_stop "$(uname -n) does not see the folder from which this job reads how copies are staged" \
        'submit from where the nodes see the folder (XDG_DATA_HOME names its place), or omit --stage'
}
