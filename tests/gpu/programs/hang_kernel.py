"""A kernel that does not end in reasonable time: the rank waits for it in synchronize()."""

import torch
from told import tell

torch.ones(1, device="cuda")
tell(begun=True)
for _ in range(1000):
    torch.cuda._sleep(2_000_000_000)
torch.cuda.synchronize()
