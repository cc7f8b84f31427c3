# Tells the srun of mpirun's daemons on which nodes they start. Their step of the attempt before may stand until Slurm
# calls its node dead, and would hold the others up.
muster_place_daemons() {
    [ "${muster_number:-1}" -eq 1 ] || export SLURM_OVERLAP=1
    # An mpirun that takes all nodes it knows of names none of them, and srun would take spare nodes and dead ones too.
    : "${muster_daemon_flags=${OMPI_MCA_plm_slurm_args:-}}"
    [ -z "${muster_place:-}" ] || export OMPI_MCA_plm_slurm_args="$muster_daemon_flags ${muster_place[*]}" \
        PRTE_MCA_plm_slurm_args="$muster_daemon_flags ${muster_place[*]}"
}
