"""Rank 0 waits for a program that does not end. rank: 0 kind: child"""

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
    subprocess.run(["sleep", "3600"])  # HERE


if RANK == 0:
    convert()
dist.barrier()
