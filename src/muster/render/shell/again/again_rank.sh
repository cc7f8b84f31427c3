# The ranks of a job that starts them again know which start this is.
muster_restarted=${TORCHELASTIC_RESTART_COUNT:-0}
export TORCHELASTIC_RESTART_COUNT="$((${MUSTER_ATTEMPT:-1} - 1 + muster_restarted))" \
    TORCHELASTIC_MAX_RESTARTS="${MUSTER_RESTARTS:-0}"
