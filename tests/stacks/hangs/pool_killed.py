"""Rank 1 waits for a process pool whose worker was killed before it took its task. kind: loader"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import multiprocessing


def die(_):
    os._exit(1)


def tokenize():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(die, [1])  # HERE


if RANK == 1:
    tokenize()
dist.all_reduce(one)
