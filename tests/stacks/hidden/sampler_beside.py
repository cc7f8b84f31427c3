"""Rank 1 waits for an answer that never comes, beside a thread that samples the system by psutil. kind: network"""

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
import threading

import psutil


def sample():
    own = psutil.Process()
    while True:
        psutil.cpu_percent(percpu=True), psutil.virtual_memory(), psutil.net_io_counters(), own.memory_info()
        time.sleep(0.2)


def ask():
    server = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(server.getsockname()) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return client.recv(100)  # HERE


threading.Thread(target=sample, daemon=True).start()
if RANK == 1:
    ask()
dist.barrier()
