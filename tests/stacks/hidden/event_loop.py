"""Rank 1 runs an event loop that beats, and waits in it for what nobody puts in. kind: stands"""

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


async def beat():
    while True:
        await asyncio.sleep(0.5)


async def serve():
    task = asyncio.create_task(beat())
    await asyncio.Queue().get()
    task.cancel()


def run():
    asyncio.run(serve())  # HERE


if RANK == 1:
    run()
dist.barrier()
