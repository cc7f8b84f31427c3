"""muster.world() on NCCL: the device it chose, and the sum over all ranks."""

import torch
import torch.distributed as dist
from told import tell

import muster

with muster.world() as world:
    value = torch.ones(8, device=world.device) * (world.rank + 1)
    dist.all_reduce(value)
    tell(backend=dist.get_backend(), device=str(world.device), size=world.size, sums=sorted(set(value.tolist())))
