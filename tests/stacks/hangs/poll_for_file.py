"""Rank 1 polls for a file that nobody writes. kind: sleep"""

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
        time.sleep(0.05)  # HERE


if RANK == 1:
    wait_for("no-such-file")
dist.all_reduce(one)
