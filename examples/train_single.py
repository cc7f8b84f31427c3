"""Train a small network on handwritten digits in one process, on one GPU or on the CPU: where every training begins.

    python train_single.py

Needs torch and scikit-learn, which brings the data: 1,797 images of 8 × 8 points; nothing is downloaded.
`train_ddp.py` is the same program for many ranks; compare the two to see what has to change.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


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
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits in one process.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)

    # Your own data, model and loop go here.
    training, test = make_data()
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(options.epochs):
        model.train()
        for images, digits in DataLoader(training, options.batch, shuffle=True):
            loss = cross_entropy(model(images.to(device)), digits.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for images, digits in DataLoader(test, options.batch):
                right += int((model(images.to(device)).argmax(dim=1) == digits.to(device)).sum())
        print(f"epoch {epoch}  loss {loss.item():.4f}  right on the test images {right / len(test):.1%}")

    torch.save(model.state_dict(), "digits.pt")


if __name__ == "__main__":
    main()
