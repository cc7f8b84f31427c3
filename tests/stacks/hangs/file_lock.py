"""Rank 1 waits for the lock of a file that its own child holds. kind: file_lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import fcntl
import subprocess
import sys

CHILD = (
    "import fcntl,sys,time; f=open(sys.argv[1],'w'); fcntl.flock(f,fcntl.LOCK_EX); print(flush=True); time.sleep(9999)"
)


def cache():
    path = f"/tmp/lock-{os.getpid()}"
    child = subprocess.Popen([sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE)
    child.stdout.readline()
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # HERE


if RANK == 1:
    cache()
dist.barrier()
