# All ranks on one core would be slow without a message.
[ "${MUSTER_CPUS:-1}" -le 1 ] || [ "$muster_cpu_count" -ne 1 ] || muster_stop \
    "rank $muster_rank may use only one CPU (number $muster_cpus) of the $MUSTER_CPUS that were asked for" \
    'the step was started without --cpus-per-task: let Muster write the srun line'
