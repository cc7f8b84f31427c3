"""Rank 1 waits for a queue that nobody fills, beside a thread that writes 4 kB/s, as wandb does. kind: lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import queue
import threading


def write_metrics():
    with open(f"metrics.{RANK}", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))
            time.sleep(0.25)


def fetch():
    return queue.Queue().get()  # HERE


threading.Thread(target=write_metrics, daemon=True).start()
if RANK == 1:
    fetch()
dist.all_reduce(one)
