"""Rank 0 runs round a loop that never ends. rank: 0 kind: loop"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def count():
    number = 1
    while number:
        number += 1  # HERE


if RANK == 0:
    count()
dist.all_reduce(one)
