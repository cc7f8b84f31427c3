"""Rank 0 writes a large checkpoint in silence, and waits for the disk."""

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


def save():
    part = torch.zeros(1 << 20)
    while time.monotonic() - BEGAN < SECONDS:
        with open("checkpoint.part", "wb") as file:
            for _ in range(8):
                torch.save(part, file)
                os.fsync(file.fileno())
                time.sleep(0.2)
    os.unlink("checkpoint.part")


if RANK == 0:
    save()

dist.barrier()
print("done", flush=True)
