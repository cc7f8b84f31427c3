"""Rank 1 says every 3 seconds that it waits for a lock that nobody gives back. kind: sleep"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def acquire(path):
    open(path, "w").close()
    while os.path.exists(path):
        print(f"waiting for the lock {path} ...", flush=True)
        time.sleep(3)  # HERE


if RANK == 1:
    acquire("index.lock")
dist.all_reduce(one)
