"""Rank 1 is in C code that holds the lock of Python. kind: sleep or stands"""

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


def extension():
    ctypes.PyDLL(None).sleep(3600)  # HERE


if RANK == 1:
    extension()
dist.all_reduce(one)
