"""Rank 1 waits for a lock that it holds; a thread starts a program every second, as GPU monitors do. kind: lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import subprocess
import threading

lock = threading.Lock()


def look_at_gpus():
    while True:
        subprocess.run(["cat", "/proc/loadavg"], stdout=subprocess.DEVNULL)
        time.sleep(1)


def save():
    lock.acquire()
    with lock:  # HERE
        print("saved")


threading.Thread(target=look_at_gpus, daemon=True).start()
if RANK == 1:
    save()
dist.barrier()
