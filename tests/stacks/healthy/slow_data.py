"""Rank 1 reads its data through a slow pipe; rank 0 waits in the all-reduce of backward."""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
SECONDS = float(os.environ["SECONDS_EACH"])
dist.barrier()
print("begins", flush=True)
BEGAN = time.monotonic()

import threading

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))


def feed(writer):
    while True:
        os.write(writer, bytes(4000))
        time.sleep(0.4)


def batches():
    reader, writer = os.pipe()
    threading.Thread(target=feed, args=(writer,), daemon=True).start()
    while time.monotonic() - BEGAN < SECONDS:
        yield os.read(reader, 4000)


if RANK == 1:
    for batch in batches():
        torch.tensor(list(batch[:100])).float().mean()
model(torch.ones(2, 4)).sum().backward()

dist.barrier()
print("done", flush=True)
