"""Rank 1 has one batch less: it waits at the end, rank 0 in the all-reduce of backward. kind: order"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))


def train():
    for _ in range(3 if RANK == 0 else 2):
        model(torch.ones(2, 4)).sum().backward()


train()
dist.monitored_barrier()  # HERE
