# A program that finds its MPI's numbers takes them for its own. A rank of torchrun's is no rank of MPI.
while read -r muster_word muster_name; do
    case $muster_word in
    export) ;;
    declare) muster_name=${muster_name#-* } ;; # bash, where it is not asked to be POSIX's
    *) continue ;;
    esac
    muster_name=${muster_name%%=*}
    case $muster_name in
    *[!A-Za-z0-9_]*) ;;
    OMPI_COMM_WORLD_* | OMPI_UNIVERSE_SIZE | OMPI_MCA_orte_* | OMPI_MCA_ess* | OMPI_MCA_pmix* | PRTE_* | PMIX_* | PMI_* | PALS_* | MPI_LOCALRANKID | MPI_LOCALNRANKS)
        unset "$muster_name"
        ;;
    esac
done <<MUSTER_NAMES
$(export -p)
MUSTER_NAMES
