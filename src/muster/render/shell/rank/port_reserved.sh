# The port that Slurm reserved for this step: steps that run at the same time have different ones.
[ -n "${MUSTER_PORT:-}${MUSTER_RANGE_ASKED:-}" ] || MUSTER_PORT=${SLURM_STEP_RESV_PORTS:-}
MUSTER_PORT=${MUSTER_PORT%%[,-]*}
