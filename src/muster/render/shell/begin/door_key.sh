# Makes the secret that the doors of a closed job share. It stands in the environment of the step, which other users
# cannot read, and in no word of a command.
muster_make_door_key() {
    MUSTER_DOOR_KEY=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n')
    [ "${#MUSTER_DOOR_KEY}" -eq 64 ] || muster_stop 'no secret can be made: od cannot read /dev/urandom' 'omit --closed'
    export MUSTER_DOOR_KEY
}
