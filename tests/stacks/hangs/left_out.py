"""Rank 1 leaves a collective out and goes to the next one. kind: order"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)


def evaluate():
    dist.broadcast(torch.ones(4), src=1)


def train():
    dist.barrier()  # HERE


if RANK == 0:
    evaluate()
train()
