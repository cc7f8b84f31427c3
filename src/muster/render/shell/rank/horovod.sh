# Horovod asks its MPI which rank this is. If no MPI started this rank, Horovod would train alone without a message.
if [ "$muster_size" -gt 1 ] && [ -z "${OMPI_COMM_WORLD_RANK:-}${PMIX_RANK:-}${PMI_RANK:-}${PMI_FD:-}${PALS_RANKID:-}" ]; then
    muster_stop "rank $muster_rank was started without MPI: each rank of Horovod would train alone" \
        'name the PMI that your MPI was built with: --mpi pmix or --mpi pmi2; srun --mpi=list shows which ones this Slurm has'
fi
# An outer horovodrun sets these for its own ranks.
unset HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_RANK HOROVOD_LOCAL_SIZE HOROVOD_CROSS_RANK HOROVOD_CROSS_SIZE
unset HOROVOD_HOSTNAME HOROVOD_GLOO_RENDEZVOUS_ADDR HOROVOD_GLOO_RENDEZVOUS_PORT
