# Runs the srun command $@ where no watch was read: srun ends all ranks when one fails, and its status is what is known.
muster_step() {
    export MUSTER_DIRECTORY=$PWD
    "${@/#--kill-on-bad-exit=0/--kill-on-bad-exit=1}"
    muster_status=$?
} 8>&1 9>&2
