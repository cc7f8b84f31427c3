"""Rank 1 is stopped by a signal in the middle of its work. kind: stopped"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import signal


def suspend():
    os.kill(os.getpid(), signal.SIGSTOP)  # HERE


if RANK == 1:
    suspend()
dist.barrier()
