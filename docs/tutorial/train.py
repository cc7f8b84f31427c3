# train.py
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

on_gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if on_gpu else "gloo")
rank, size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")

torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(16, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(101):
    inputs = torch.randn(64, 16, device=device)
    loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 25 == 0:
        print(f"step {step:3d}  ranks {size}  loss {loss:.1f}")
print(f"rank {rank} has seen {64 * (step + 1)} samples")
dist.barrier()
dist.destroy_process_group()
