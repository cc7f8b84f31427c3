"""Rank 1 stays in the handler of an exception. kind: sleep"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def step():
    try:
        raise RuntimeError("a bad batch")
    except RuntimeError:
        retry()


def retry():
    while True:
        time.sleep(1)  # HERE


if RANK == 1:
    step()
dist.all_reduce(one)
