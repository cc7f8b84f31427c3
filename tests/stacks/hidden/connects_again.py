"""Rank 1 tries again and again to reach a server that is not there, and says so (pytorch #25769). kind: sleep"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import socket


def connect(port):
    number = 0
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError as error:
            number += 1
            print(f"client failed to connect: {error}, retrying (try={number})", flush=True)
            time.sleep(2)  # HERE


if RANK == 1:
    connect(9)
dist.barrier()
