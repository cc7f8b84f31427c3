"""A collective behind a kernel that does not end: NCCL's watchdog and the flight recorder have to say so."""

import datetime as dt

import torch
import torch.distributed as dist
from told import tell

dist.init_process_group("nccl", timeout=dt.timedelta(seconds=15))
torch.cuda.set_device(0)
value = torch.ones(1 << 20, device="cuda")
dist.all_reduce(value)
torch.cuda.synchronize()
tell(begun=True)
for _ in range(100):
    torch.cuda._sleep(2_000_000_000)
dist.all_reduce(value, async_op=True)
torch.cuda.synchronize()
