# One torchrun agent runs on each node. The agent is told whether it hosts the meeting point, so it compares no names.
read -r muster_here </proc/sys/kernel/hostname
muster_host=0
[ "$muster_node_rank" -ne 0 ] || muster_host=1
[ "$muster_host" -eq 0 ] || ! muster_port_is_taken "$muster_port" || muster_stop \
    "port $muster_port of $muster_address is taken by another program" 'start again, or choose one with --master-port'
# This is a variable, not an option: a torch that is too old for it ignores the variable.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${MUSTER_GRACE:-10}"
# torchrun sets 1 when the variable is missing. The keeper of the agent replaces this 1 with the share of a rank.
[ -n "${OMP_NUM_THREADS:-}" ] || export OMP_NUM_THREADS=1 MUSTER_OMP=own
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="\${rank}: "
