# The check knows its place by torch's names, one rank for each node; it takes them away before torchrun starts.
export RANK="$muster_node_rank" WORLD_SIZE="$muster_nodes" LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
export MASTER_ADDR="$muster_address" MASTER_PORT="$muster_port" MUSTER_CHECKED=agent
