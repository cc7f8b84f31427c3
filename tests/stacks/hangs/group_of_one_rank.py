"""Rank 1 makes a group that rank 0 does not make. kind: order or stands"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def make_group():
    return dist.new_group([0, 1])  # HERE


if RANK == 1:
    make_group()
dist.barrier()
