"""Rank 1 waits for an event that nobody sets; a timer interrupts it twice a second. kind: lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import signal
import threading


def note(*_):
    with open(f"profile.{RANK}", "a") as file:
        file.write("sample\n" * 200)


def wait():
    threading.Event().wait()  # HERE


signal.signal(signal.SIGALRM, note)
signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
if RANK == 1:
    wait()
dist.barrier()
