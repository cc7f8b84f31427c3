"""What Accelerate's users write: nothing of ours, nothing of Slurm's. Prints rank, size and local rank."""

import sys
import time

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
model = torch.nn.Linear(4, 1)
model, optimizer, batches = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.1), torch.utils.data.DataLoader(data, batch_size=8)
)
for images, targets in batches:
    accelerator.backward(torch.nn.functional.mse_loss(model(images), targets))
    optimizer.step()
    optimizer.zero_grad()
place = accelerator.process_index, accelerator.num_processes, accelerator.local_process_index
sys.stdout.write(f"place {' '.join(map(str, place))}\n")  # in one piece: a launcher labels what is written at once
accelerator.wait_for_everyone()
time.sleep(0.1)  # gloo's threads let go of the last barrier; else torch 2.13 aborts in one end of four
torch.distributed.destroy_process_group()
