"""Rank 1 reads from a pipe that nobody writes. kind: pipe"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def read():
    reader, _writer = os.pipe()
    return os.read(reader, 1)  # HERE


if RANK == 1:
    read()
dist.all_reduce(one)
