"""Rank 1 sleeps in a function of its own; the others wait in all_reduce. kind: sleep"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def load():
    time.sleep(3600)  # HERE


if RANK == 1:
    load()
dist.all_reduce(one)
