"""Rank 1 waits for a coroutine that never comes. kind: stands"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import asyncio


async def never():
    await asyncio.Event().wait()


def upload():
    asyncio.run(never())  # HERE


if RANK == 1:
    upload()
dist.barrier()
