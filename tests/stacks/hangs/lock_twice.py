"""Rank 1 waits for a lock that it holds itself. kind: lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import threading

lock = threading.Lock()


def save():
    with lock:
        log()


def log():
    with lock:  # HERE
        print("saved")


if RANK == 1:
    save()
dist.barrier()
