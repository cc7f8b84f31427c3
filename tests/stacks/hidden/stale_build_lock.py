"""Rank 1 waits for the lock that a killed build of an extension left (pytorch #189245). kind: sleep"""

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

from torch.utils.file_baton import FileBaton


def write_events():
    with open(f"events.{RANK}", "w") as file:
        while True:
            file.write("scalar 0.1\n" * 300)
            file.flush()
            time.sleep(0.7)


def build():
    open("lock", "w").close()
    FileBaton("lock").wait()  # HERE


threading.Thread(target=write_events, daemon=True).start()
if RANK == 1:
    build()
dist.barrier()
