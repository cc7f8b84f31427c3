# The ranks of a closed job meet behind the door, and not at the place that their agent names.
export MASTER_ADDR="${MUSTER_DOOR%:*}" MASTER_PORT="${MUSTER_DOOR##*:}" TORCHELASTIC_USE_AGENT_STORE=True
unset MUSTER_DOOR TORCH_DISABLE_SHARE_RDZV_TCP_STORE
