"""More memory than the card has."""

import torch

held = []
while True:
    held.append(torch.empty(1 << 33, dtype=torch.uint8, device="cuda"))
