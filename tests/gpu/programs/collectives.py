"""Every collective over NCCL with one rank: what arrives is what was sent."""

import torch
import torch.distributed as dist
from told import tell

dist.init_process_group("nccl")
torch.cuda.set_device(0)
wrong = []


def expect(name, value, sent):
    """Note a collective whose elements are not those that were sent."""
    if value.tolist() != sent.tolist():
        wrong.append(name)


sent = torch.arange(1024, device="cuda", dtype=torch.float32)
for name in ("all_reduce", "broadcast", "reduce"):
    value = sent.clone()
    getattr(dist, name)(value, *(() if name == "all_reduce" else (0,)))
    expect(name, value, sent)
for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
    value = torch.zeros_like(sent)
    getattr(dist, name)(value, sent)
    expect(name, value, sent)
dist.barrier()
tell(backend=dist.get_backend(), wrong=wrong, count=6)
dist.destroy_process_group()
