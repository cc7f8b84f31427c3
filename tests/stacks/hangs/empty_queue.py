"""Rank 1 waits for a queue that nobody fills. kind: lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import queue


def fetch():
    return queue.Queue().get()  # HERE


if RANK == 1:
    fetch()
dist.all_reduce(one)
