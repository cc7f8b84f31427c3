"""Rank 1 matches a regular expression that takes for ever. kind: loop"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import re


def clean(text):
    pattern = re.compile(r"(a+)+$")
    return pattern.match(text)  # HERE


if RANK == 1:
    clean("a" * 60 + "b")
dist.all_reduce(one)
