"""Rank 0, which keeps the store, does not come to init_process_group. rank: 0 kind: sleep"""

import os
import time

import torch.distributed as dist


def download():
    time.sleep(3600)  # HERE


if os.environ["RANK"] == "0":
    download()
dist.init_process_group("gloo")
