"""Rank 1 does not come to init_process_group. kind: sleep"""

import os
import time

import torch.distributed as dist


def download():
    time.sleep(3600)  # HERE


if os.environ["RANK"] == "1":
    download()
dist.init_process_group("gloo")
