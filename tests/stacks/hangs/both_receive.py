"""Both ranks wait for a message of the other. kind: collective"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

dist.recv(one, src=1 - RANK)  # HERE
