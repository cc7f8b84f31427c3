"""Two ranks on one GPU. argv[1]: gloo, which may; nccl, which refuses."""

import os
import sys

import torch
import torch.distributed as dist
from told import tell

dist.init_process_group(sys.argv[1])
torch.cuda.set_device(0)
value = torch.ones(1, device="cuda") * (dist.get_rank() + 1)
carried = value if sys.argv[1] == "nccl" else value.cpu()
dist.all_reduce(carried)
tell(rank=dist.get_rank(), sum=carried.item(), device=torch.cuda.current_device(), local=os.environ["LOCAL_RANK"])
dist.destroy_process_group()
