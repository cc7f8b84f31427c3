"""Rank 1 waits for a thread that waits for it; a progress bar shows the seconds all the time. kind: lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import threading


def show_time():
    begun = time.monotonic()
    while True:
        print(f"\rstep 12  {time.monotonic() - begun:.0f} s", end="", flush=True)
        time.sleep(1)


def prefetch(ready):
    ready.wait()


def next_batch():
    thread = threading.Thread(target=prefetch, args=(threading.Event(),), daemon=True)
    thread.start()
    thread.join()  # HERE


threading.Thread(target=show_time, daemon=True).start()
if RANK == 1:
    next_batch()
dist.all_reduce(one)
