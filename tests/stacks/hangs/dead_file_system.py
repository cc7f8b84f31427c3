"""Rank 1 opens a file on a file system that does not answer. kind: file_system"""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)
print("begins", flush=True)

import ctypes
import sys


def mount():
    """A FUSE file system without a server, in a mount namespace of this process alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    path = f"/tmp/dead-{os.getpid()}"
    os.mkdir(path)
    device = os.open("/dev/fuse", os.O_RDWR)
    if libc.unshare(0x00020000) or libc.mount(None, b"/", None, 0x44000, None):
        sys.exit("no mount namespace")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"dead", path.encode(), b"fuse", 0, options):
        sys.exit(f"no mount: {os.strerror(ctypes.get_errno())}")
    return path


def read(folder):
    with open(f"{folder}/data") as file:  # HERE
        return file.read()


if RANK == 1:
    read(mount())
dist.barrier()
