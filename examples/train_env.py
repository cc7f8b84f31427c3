"""Train a small network on handwritten digits, on any number of ranks: plain PyTorch, nothing of Muster.

It reads the variables that torchrun and Muster give every rank (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
MASTER_PORT) and is the same program on one process or on many: `--world-batch` is the batch of the whole world,
of which each rank takes its own part, so the weights at the end are the same however many ranks there were.

    python train_env.py --out one.pt
    muster run --ntasks-per-node 4 python train_env.py --out four.pt
    muster run -N 4 -g 4 python train_env.py

Needs torch and scikit-learn, which brings the data: 1,797 images of 8 × 8 points; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

TRAINING_IMAGES = 1500  # the other 297 are kept for the test


def main() -> None:
    options = parse_options()
    rank = int(os.environ.get("RANK", "0"))
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if options.world_batch % size:
        raise SystemExit(f"a batch of {options.world_batch} cannot be shared by {size} ranks: change --world-batch")

    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        train(options, rank, size, device)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def train(options: argparse.Namespace, rank: int, size: int, device: torch.device) -> None:
    """Your own training goes here: your data, your model, your loop."""
    images, digits = load_data(device)
    batches = TRAINING_IMAGES // options.world_batch
    share = options.world_batch // size

    torch.manual_seed(0)
    # Doubles: sums of four parts and of one whole then agree in all the digits that anybody compares.
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)).double().to(device)
    model: torch.nn.Module = network
    if dist.is_initialized():
        model = DistributedDataParallel(network, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)

    for step in range(options.steps):
        epoch, place = divmod(step, batches)
        if place == 0:  # every rank draws the same order, and takes its own part of it below
            order = torch.randperm(TRAINING_IMAGES, generator=torch.Generator().manual_seed(epoch))
        start = place * options.world_batch + rank * share
        mine = order[start : start + share].to(device)
        loss = cross_entropy(model(images[mine]), digits[mine])
        optimizer.zero_grad()
        loss.backward()  # DistributedDataParallel averages the gradients over all ranks here
        optimizer.step()
        if step % options.print_every == 0 or step == options.steps - 1:
            say(rank, f"step {step:4d}  loss {mean_over_ranks(loss.detach(), size):.6f}")

    with torch.no_grad():
        right = network(images[TRAINING_IMAGES:]).argmax(dim=1) == digits[TRAINING_IMAGES:]
    say(rank, f"ranks {size}  device {device.type}  right on the test images: {right.double().mean():.1%}")
    if options.out and rank == 0:
        save(network.state_dict(), options.out)
    if dist.is_initialized():
        # A thread of gloo's that still holds the last all-reduce when Python ends aborts the process, now and then.
        dist.barrier()


def load_data(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """All images as rows of 64 numbers between 0 and 1, and the digit that each one shows."""
    data = load_digits()
    return torch.tensor(data.data / 16, device=device), torch.tensor(data.target, device=device)


def mean_over_ranks(value: torch.Tensor, size: int) -> float:
    if dist.is_initialized():
        dist.all_reduce(value)
    return float(value) / size


def say(rank: int, text: str) -> None:
    """Once, not once per rank."""
    if rank == 0:
        print(text, flush=True)


def save(weights: dict[str, torch.Tensor], path: str) -> None:
    """Whole or not at all: a job that is ended while it writes leaves the old file as it was."""
    torch.save(weights, path + ".part")
    Path(path + ".part").replace(path)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits, on any number of ranks.")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--world-batch", type=int, default=64, help="images per step, over all ranks (default 64)")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--print-every", type=int, default=40, help="steps between two lines (default 40)")
    parser.add_argument("--out", help="file for the final weights, written by rank 0")
    return parser.parse_args()


if __name__ == "__main__":
    main()
