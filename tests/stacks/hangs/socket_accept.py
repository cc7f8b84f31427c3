"""Rank 1 waits for a connection on a socket. kind: network"""

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


def serve():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()  # HERE


if RANK == 1:
    serve()
dist.all_reduce(one)
