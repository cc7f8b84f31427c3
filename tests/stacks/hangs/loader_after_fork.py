"""A data loader waits for its workers, which inherited a locked lock. kind: loader"""

import os
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

dist.init_process_group("gloo")
RANK = dist.get_rank()
LOCK = threading.Lock()


class Data(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        with LOCK:
            return torch.ones(1)


def hold():
    with LOCK:
        time.sleep(3600)


def epoch():
    for batch in DataLoader(Data(), num_workers=1, multiprocessing_context="fork"):  # HERE
        del batch


if RANK == 1:
    threading.Thread(target=hold, daemon=True).start()
    time.sleep(0.2)
    epoch()
dist.all_reduce(torch.ones(1))
