"""Rank 1 waits for a shell command that does not end. kind: child"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import ctypes


def run():
    libc = ctypes.CDLL(None)
    libc.system(b"exec sleep 3600")  # HERE


if RANK == 1:
    run()
dist.barrier()
