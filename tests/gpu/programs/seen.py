"""What this rank sees of the GPU before and after CUDA starts."""

import os

import torch
from told import tell

initialized = torch.cuda.is_initialized()
visible = os.environ.get("CUDA_VISIBLE_DEVICES")
device = torch.cuda.current_device()
tell(
    initialized_first=initialized,
    visible=visible,
    count=torch.cuda.device_count(),
    device=device,
    local_rank=int(os.environ["LOCAL_RANK"]),
    name=torch.cuda.get_device_name(device),
    torch=torch.__version__,
    cuda=torch.version.cuda,
    doubled=(torch.ones(4, device="cuda") * 2).sum().item(),
)
