"""Two threads of rank 1 take two locks in another order. kind: lock"""

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

first, second = threading.Lock(), threading.Lock()


def other():
    with second:
        time.sleep(0.5)
        with first:
            pass


def deadlock():
    with first:
        threading.Thread(target=other, daemon=True).start()
        time.sleep(0.2)
        with second:  # HERE
            pass


if RANK == 1:
    deadlock()
dist.barrier()
