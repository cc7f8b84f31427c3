"""Seconds from the start of Python to the first collective over NCCL, and of a training step after that."""

import os
import statistics
import time

import torch
import torch.distributed as dist
from told import tell

dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
value = torch.ones(1 << 20, device="cuda")
dist.all_reduce(value)
torch.cuda.synchronize()
first = time.time() - float(os.environ["PROOF_BEGAN"])
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda()
data = torch.randn(512, 2048, device="cuda")
steps = []
for _ in range(60):
    began = time.perf_counter()
    model(data).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad = None
    torch.cuda.synchronize()
    steps.append(time.perf_counter() - began)
tell(first_s=first, step_s=statistics.median(steps[10:]))
dist.destroy_process_group()
