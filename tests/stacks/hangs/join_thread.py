"""Rank 1 joins a thread that never ends. kind: lock"""

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


def finish():
    thread = threading.Thread(target=time.sleep, args=(3600,), daemon=True)
    thread.start()
    thread.join()  # HERE


if RANK == 1:
    finish()
dist.barrier()
