"""Rank 1 hangs while it imports a module of its own. kind: sleep"""

import os
import sys
import time

import torch.distributed as dist


def load_plugin():
    time.sleep(3600)  # HERE


if os.environ["RANK"] == "1":
    load_plugin()
dist.init_process_group("gloo")
dist.barrier()
