"""Rank 1 alone goes into a branch with a collective; rank 0 goes on to the next. kind: order"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def log():
    dist.all_gather_object([None, None], RANK)  # HERE


if RANK == 1:
    log()
dist.barrier()
