"""Rank 1 opens a FIFO whose writer never comes. kind: pipe"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def read_configuration():
    path = f"/tmp/fifo-{os.getpid()}"
    os.mkfifo(path)
    with open(path) as file:  # HERE
        return file.read()


if RANK == 1:
    read_configuration()
dist.barrier()
