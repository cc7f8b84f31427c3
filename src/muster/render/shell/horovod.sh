# Horovod asks its MPI who the ranks are. Where no MPI has started this one, it would train alone and say nothing.
if [ "$muster_size" -gt 1 ] && [ -z "${OMPI_COMM_WORLD_RANK:-}${PMIX_RANK:-}${PMI_RANK:-}${PMI_FD:-}${PALS_RANKID:-}" ]; then
    muster_stop "rank $muster_rank was started without MPI: Horovod would take each rank for the whole world" \
        'name the PMI that your MPI was built with: --mpi pmix or --mpi pmi2; srun --mpi=list shows what is there'
fi
# What horovodrun, around us, would have told its own ranks.
unset HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_RANK HOROVOD_LOCAL_SIZE HOROVOD_CROSS_RANK HOROVOD_CROSS_SIZE
unset HOROVOD_HOSTNAME HOROVOD_GLOO_RENDEZVOUS_ADDR HOROVOD_GLOO_RENDEZVOUS_PORT
