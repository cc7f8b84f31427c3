"""Rank 1 hangs in what runs at its end; rank 0 waits in the last barrier. kind: sleep"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import atexit


def flush():
    time.sleep(3600)  # HERE


if RANK == 1:
    atexit.register(flush)
    raise SystemExit
dist.barrier()
