"""Rank 1 asks without a pause whether a file is there. kind: loop"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def wait_for(path):
    while not os.path.exists(path):
        pass  # HERE


if RANK == 1:
    wait_for("no-such-file")
dist.barrier()
