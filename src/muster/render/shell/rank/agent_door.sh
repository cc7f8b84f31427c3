# The agents of a closed job meet behind the door, and none of them opens a store: the ranks meet behind the door too.
muster_host=0
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 MUSTER_DOOR="$muster_address:$muster_port"
