# Compares the start with the plan: a rank that runs alone is reported now.
[ -z "${MUSTER_NTASKS:-}" ] || [ "$muster_size" -eq "$MUSTER_NTASKS" ] || muster_stop \
    "$MUSTER_NTASKS ranks were planned, but the launcher started $muster_size" \
    'the command may start another launcher: remove it from the command'
