"""Rank 1 waits for a child that reads a pipe without a writer; a heartbeat is written to a file. kind: child"""

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


def beat():
    while True:
        with open(f"heartbeat.{RANK}", "w") as file:
            file.write(f"{time.time()}\n" * 200)
        time.sleep(0.5)


def unpack():
    os.mkfifo(f"fifo.{RANK}")
    subprocess.run(["cat", f"fifo.{RANK}"])  # HERE


threading.Thread(target=beat, daemon=True).start()
if RANK == 1:
    unpack()
dist.all_reduce(one)
