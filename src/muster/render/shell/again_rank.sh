# The ranks of a job that starts them again know which start this is.
export TORCHELASTIC_RESTART_COUNT="$((${MUSTER_ATTEMPT:-1} - 1))" TORCHELASTIC_MAX_RESTARTS="${MUSTER_RESTARTS:-0}"
