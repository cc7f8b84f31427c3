"""Rank 1 waits at a pipe; rank 0 spins in C until it comes, as NCCL does. kind: pipe"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import ctypes
import subprocess
import tempfile

SOURCE = b"#include <sched.h>\nvoid wait_for_flag(volatile int *flag) { while (!*flag) sched_yield(); }\n"


def library():
    path = f"{tempfile.mkdtemp()}/spin.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=SOURCE, check=True)
    return ctypes.CDLL(path)


def synchronize():
    library().wait_for_flag(ctypes.byref(ctypes.c_int(0)))


def load():
    os.read(os.pipe()[0], 1)  # HERE


load() if RANK == 1 else synchronize()
dist.barrier()
