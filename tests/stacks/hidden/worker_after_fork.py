"""Rank 1 waits for a process that was forked from under a lock (litData #823); psutil samples. kind: lock"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import concurrent.futures
import multiprocessing
import threading

import psutil

LOCK = threading.Lock()


def sample():
    while True:
        psutil.cpu_percent(), psutil.disk_io_counters()
        time.sleep(0.5)


def read_chunk():
    with LOCK:
        return 1


def fetch():
    LOCK.acquire()
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(read_chunk).result()  # HERE


threading.Thread(target=sample, daemon=True).start()
if RANK == 1:
    fetch()
dist.all_reduce(one)
