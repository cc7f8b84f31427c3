"""Rank 1 waits for a key of the store that nobody sets. kind: network or stands or lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

from datetime import timedelta


def wait_for_key():
    store = dist.distributed_c10d._get_default_store()
    store.wait(["never"], timedelta(hours=1))  # HERE


if RANK == 1:
    wait_for_key()
dist.barrier()
