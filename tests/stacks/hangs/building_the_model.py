"""Rank 1 does not build its model; rank 0 waits in DistributedDataParallel. kind: sleep"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def build():
    if RANK == 1:
        time.sleep(3600)  # HERE
    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))


build()
