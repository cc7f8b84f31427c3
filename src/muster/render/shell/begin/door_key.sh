# Makes the secret that the doors of a closed job share. It stands in the environment of the step, which other users
# cannot read, and in no word of a command.
muster_make_door_key() {
    local half
    case $muster_door in *'# muster_read '*) muster_stop 'without the text of its door this job would not be closed' \
        'let XDG_DATA_HOME name a place that the nodes see, or omit --closed' ;; esac
    MUSTER_DOOR_KEY=
    for _ in 1 2; do read -r half </proc/sys/kernel/random/uuid && MUSTER_DOOR_KEY+=${half//-/}; done
    [ "${#MUSTER_DOOR_KEY}" -eq 64 ] ||
        muster_stop 'no secret can be made: the kernel gives no random numbers' 'omit --closed'
    export MUSTER_DOOR_KEY
}
