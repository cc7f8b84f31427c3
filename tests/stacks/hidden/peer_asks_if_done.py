"""Rank 1 waits for a queue; rank 0 asks all the time whether the all_reduce is done. kind: lock"""

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


def synchronize():
    work = dist.all_reduce(one, async_op=True)
    while not work.is_completed():
        pass


fetch() if RANK == 1 else synchronize()
dist.barrier()
