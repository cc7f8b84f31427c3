"""A breakpoint was left in rank 0. rank: 0 kind: debugger"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import sys


def look():
    reader, _ = os.pipe()
    sys.stdin = os.fdopen(reader)
    breakpoint()
    print("after")  # HERE


if RANK == 0:
    look()
dist.barrier()
