# Who this rank is, from the variables of Muster's supervisor on this machine.
muster_rank=$MUSTER_LOCAL_PROCID
muster_size=$MUSTER_NTASKS
muster_local_rank=$MUSTER_LOCAL_LOCALID
muster_local_size=$MUSTER_LOCAL_NTASKS
muster_node_rank=$MUSTER_LOCAL_NODEID
muster_nodes=$MUSTER_LOCAL_NNODES
muster_address=${MUSTER_ADDRESS:-127.0.0.1}
muster_port=$MUSTER_PORT
muster_id=$MUSTER_JOB
