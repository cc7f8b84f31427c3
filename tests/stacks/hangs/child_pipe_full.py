"""Rank 1 waits for a program whose output fills the pipe. kind: child"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import subprocess


def convert():
    process = subprocess.Popen(["yes"], stdout=subprocess.PIPE)
    process.wait()  # HERE


if RANK == 1:
    convert()
dist.barrier()
