"""An unchanged script: DistributedDataParallel over NCCL, and the same steps on the CPU to hold it against."""

import os

import torch
import torch.distributed as dist
from told import tell
from torch.nn.parallel import DistributedDataParallel


def losses(device, wrap):
    """Return the loss of each step."""
    torch.manual_seed(7)
    data = torch.randn(256, 32)
    target = data.sum(1, keepdim=True)
    model = wrap(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data, target = data.to(device), target.to(device)
    told = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        told.append(loss.item())
    return told


dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
on_gpu = losses(f"cuda:{local}", lambda model: DistributedDataParallel(model, device_ids=[local]))
on_cpu = losses("cpu", lambda model: model)
tell(backend=dist.get_backend(), gpu=on_gpu, cpu=on_cpu)
dist.destroy_process_group()
