"""Rank 1 has a thread that does not let it end; rank 0 has ended. kind: sleep or lock or gone"""

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


def heartbeat():
    while True:
        time.sleep(1)  # HERE


dist.barrier()
dist.destroy_process_group()
if RANK == 1:
    threading.Thread(target=heartbeat).start()
