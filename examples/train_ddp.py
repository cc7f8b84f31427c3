"""Train a small network on handwritten digits on one node or many: `train_single.py` with what many ranks need.

    python train_ddp.py
    muster run --ntasks-per-node 2 python train_ddp.py
    muster run -N 4 -g 4 python train_ddp.py

Needs torch and scikit-learn, which brings the data: 1,797 images of 8 × 8 points; nothing is downloaded.
The lines marked `ranks:` are all that differs from one process.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset, TensorDataset, random_split

import muster


def make_data() -> "tuple[Dataset, Dataset]":
    """Images as rows of 64 numbers between 0 and 1 with their digits: 1,500 for training, the rest for the test."""
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data / 16, dtype=torch.float), torch.tensor(digits.target))
    training, test = random_split(data, [1500, len(data) - 1500], torch.Generator().manual_seed(0))
    return training, test


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits on many ranks.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="images per step over all ranks (default 64)")
    parser.add_argument("--out", default="digits.pt", help="file for the weights (default digits.pt)")
    options = parser.parse_args()
    torch.manual_seed(0)

    with muster.world() as world:  # ranks: joined here, left at the end of the block, also by an exception
        batch = max(1, options.batch // world.size)  # ranks: each takes its share of the batch

        # Your own data, model and loop go here.
        with world.rank0_first():  # ranks: a download would happen once
            training, test = make_data()
        loader = world.loader(training, batch, num_workers=0)  # ranks: each sees its own part
        test_loader = world.loader(test, batch, train=False, num_workers=0)  # ranks: each item once in the world
        model = make_model().to(world.device)  # ranks: every rank has its own device
        model = world.ddp(model, batchnorm_group=world.size)  # ranks: gradients and batch norm span them all
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for epoch in range(options.epochs):
            loader.sampler.set_epoch(epoch)  # ranks: another order for each epoch, the same on all
            model.train()
            for images, digits in loader:
                loss = cross_entropy(model(images.to(world.device)), digits.to(world.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            model.eval()
            right = seen = 0
            with torch.no_grad():
                for images, digits in test_loader:
                    right += int((model(images.to(world.device)).argmax(dim=1) == digits.to(world.device)).sum())
                    seen += len(digits)
            share = world.mean(right / max(seen, 1), weight=seen)  # ranks: over all test images, each counted once
            world.print(f"epoch {epoch}  loss {world.mean(loss.item()):.4f}  right on the test images {share:.1%}")

        plain = getattr(model, "module", model)
        world.save(plain.state_dict(), options.out)  # ranks: rank 0 writes, the others wait


if __name__ == "__main__":
    main()
