"""A data loader looks every 5 seconds for a batch of a worker that stands; a thread writes meanwhile. kind: loader"""

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

from torch.utils.data import DataLoader, Dataset

LOCK = threading.Lock()


class Data(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        with LOCK:
            return torch.ones(1)


def write_metrics():
    with open(f"metrics.{RANK}", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))
            time.sleep(0.25)


def epoch():
    LOCK.acquire()
    for batch in DataLoader(Data(), num_workers=1, multiprocessing_context="fork"):  # HERE
        del batch


threading.Thread(target=write_metrics, daemon=True).start()
if RANK == 1:
    epoch()
dist.all_reduce(one)
