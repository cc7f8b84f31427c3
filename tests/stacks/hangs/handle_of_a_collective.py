"""Rank 0 waits for the handle of a collective that rank 1 never starts. kind: sleep"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def save():
    time.sleep(3600)  # HERE


if RANK == 1:
    save()
dist.all_reduce(one, async_op=True).wait()
