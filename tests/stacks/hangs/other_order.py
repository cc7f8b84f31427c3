"""Two ranks call two collectives in another order. kind: order"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

if RANK == 0:
    dist.barrier()
    dist.broadcast(one, src=1)
else:
    dist.recv(one, src=0)  # HERE
    dist.barrier()
