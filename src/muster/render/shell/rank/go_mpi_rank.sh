# Runs the user's command. Only rank 0 reads the standard input. This shell stays and reports a failed command: Open
# MPI's own report is lost in two of three batch jobs, and Hydra's report names no rank. After a failure Open MPI ends
# all ranks. Hydra waits for the other ranks for ever, unless a rank dies of a signal.
[ "$muster_rank" -eq 0 ] || exec </dev/null
muster_note_begin
# Open MPI ends the group of this shell: the shell outlives its rank, to end what left the group, and is silent about a
# rank that was told to end.
muster_told=
[ -z "${OMPI_COMM_WORLD_RANK:-}" ] || trap 'muster_told=1' TERM
(muster_marked "$@")
muster_status=$?
muster_note "$muster_rank" "$muster_status"
"${muster_when_over:-:}"
[ -z "$muster_told" ] || exit "$muster_status"
if [ "$muster_status" -eq 0 ]; then
    "${muster_at_end:-:}"
    exit 0
fi
printf 'muster: rank %s ended with status %s\n' "$muster_who" "$muster_status" >&2
[ -z "${OMPI_COMM_WORLD_RANK:-}" ] || exit "$muster_status"
kill -KILL "$$"
