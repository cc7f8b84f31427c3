# The check reads torch's variables, with one rank on each node. It unsets them again before torchrun starts.
export RANK="$muster_node_rank" WORLD_SIZE="$muster_nodes" LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
export MASTER_ADDR="$muster_address" MASTER_PORT="$muster_port" MUSTER_CHECKED=agent
