"""Rank 1 waits in its model while rank 0 is in backward. kind: sleep"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


class Slow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        if RANK == 1:
            time.sleep(3600)  # HERE
        return self.linear(x)


model = torch.nn.parallel.DistributedDataParallel(Slow())
model(torch.ones(2, 4)).sum().backward()
