# Unsets the variables of MPI: they describe the agent, and a program that finds them takes them for its own.
while read -r muster_word muster_name; do
    case $muster_word in
    export) ;;
    declare) muster_name=${muster_name#-* } ;; # bash that is not in POSIX mode
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
