"""Train a small network on handwritten digits with Horovod, on any number of ranks: `train_env.py` in Horovod's words.

    python train_horovod.py --out one.pt
    muster run -N 4 --ntasks-per-node 2 --launcher horovod python train_horovod.py --out eight.pt

`--world-batch` is the batch of the whole world, of which each rank takes its own part, so the weights at the end are
the same however many ranks there were, and the same as those of `train_env.py`. A program whose batch grows with the
ranks multiplies its learning rate by `hvd.size()` instead.

Needs torch, Horovod (`muster build venv --with horovod` makes it) and scikit-learn, which brings the data.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

TRAINING_IMAGES = 1500  # the other 297 are kept for the test


def main() -> None:
    options = parse_options()
    # Only now, so that --help answers where there is no Horovod.
    import horovod.torch as hvd

    hvd.init()
    # A Horovod of another MPI than the launcher's takes each rank for a whole world, and says nothing of it.
    planned = int(os.environ.get("WORLD_SIZE", "1"))
    if hvd.size() != planned:
        raise SystemExit(f"{planned} ranks were started and Horovod sees {hvd.size()}: was it built with this MPI?")
    if options.world_batch % hvd.size():
        raise SystemExit(
            f"a batch of {options.world_batch} cannot be shared by {hvd.size()} ranks: change --world-batch"
        )
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", hvd.local_rank())
        torch.cuda.set_device(device)
    train(options, hvd, device)
    hvd.shutdown()


def train(options: argparse.Namespace, hvd, device: torch.device) -> None:
    """Your own training goes here: your data, your model, your loop."""
    images, digits = load_data()
    training = TensorDataset(images[:TRAINING_IMAGES], digits[:TRAINING_IMAGES])
    batches = TRAINING_IMAGES // options.world_batch
    sampler = WorldBatches(training, options.world_batch, rank=hvd.rank(), size=hvd.size())
    loader = DataLoader(training, batch_size=options.world_batch // hvd.size(), sampler=sampler)

    torch.manual_seed(0)
    # Doubles: sums of four parts and of one whole then agree in all the digits that anybody compares.
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)).double().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Average)

    step = 0
    for epoch in range(-(-options.steps // batches)):
        sampler.set_epoch(epoch)
        for mine, shown in loader:
            if step == options.steps:
                break
            loss = cross_entropy(model(mine.to(device)), shown.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # Horovod has averaged the gradients over all ranks by now
            if step % options.print_every == 0 or step == options.steps - 1:
                mean = float(hvd.allreduce(loss.detach(), name="loss", op=hvd.Average))
                say(hvd, f"step {step:4d}  loss {mean:.6f}")
            step += 1

    with torch.no_grad():
        right = model(images[TRAINING_IMAGES:].to(device)).argmax(dim=1) == digits[TRAINING_IMAGES:].to(device)
    say(hvd, f"ranks {hvd.size()}  device {device.type}  right on the test images: {right.double().mean():.1%}")
    if options.out and hvd.rank() == 0:
        save(model.state_dict(), options.out)


class WorldBatches(DistributedSampler):
    """Each rank's part of every batch of the world, in an order that is drawn anew for each epoch.

    DistributedSampler would deal the images out one by one: the same batches, summed in another order.
    """

    def __init__(self, data: TensorDataset, world_batch: int, *, rank: int, size: int) -> None:
        super().__init__(data, num_replicas=size, rank=rank)
        self.images, self.world_batch, self.share = len(data), world_batch, world_batch // size

    def __iter__(self):
        order = torch.randperm(self.images, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        for start in range(0, self.images - self.world_batch + 1, self.world_batch):
            first = start + self.rank * self.share
            yield from order[first : first + self.share]

    def __len__(self) -> int:
        return self.images // self.world_batch * self.share


def load_data() -> tuple[torch.Tensor, torch.Tensor]:
    """All images as rows of 64 numbers between 0 and 1, and the digit that each one shows."""
    data = load_digits()
    return torch.tensor(data.data / 16), torch.tensor(data.target)


def say(hvd, text: str) -> None:
    """Once, not once per rank."""
    if hvd.rank() == 0:
        print(text, flush=True)


def save(weights: dict[str, torch.Tensor], path: str) -> None:
    """Whole or not at all: a job that is ended while it writes leaves the old file as it was."""
    torch.save(weights, path + ".part")
    Path(path + ".part").replace(path)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits with Horovod.")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--world-batch", type=int, default=64, help="images per step, over all ranks (default 64)")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--print-every", type=int, default=40, help="steps between two lines (default 40)")
    parser.add_argument("--out", help="file for the final weights, written by rank 0")
    return parser.parse_args()


if __name__ == "__main__":
    main()
