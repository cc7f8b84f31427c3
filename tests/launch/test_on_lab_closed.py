"""On a real cluster: the store of a closed job lets the ranks of an unchanged script meet, and no stranger in."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from muster.runner import checked
from plugins.labs import MUSTER, Lab

from .lab_runs import wait_until_ended

pytestmark = [pytest.mark.lab, pytest.mark.torch]

PATIENCE_S = 300.0
TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist

assert "MUSTER_DOOR_KEY" not in os.environ
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("met", int(total), os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
dist.barrier()
dist.destroy_process_group()
"""
STRANGER = """
import socket, sys

place = sys.argv[1], int(sys.argv[2])
heard = set()
for words in (b"\\0" + (0x3C85F7CE).to_bytes(4, "little"), b"\\1" * 300, b"muster-1 00\\nnode 5b5d 00\\n") * 4:
    with socket.create_connection(place, timeout=60) as connection:
        try:
            connection.sendall(words)
            while True:
                got = connection.recv(1000)
                if not got:
                    break
                heard.add(len(got) == 98)  # the door's own answer to one who claims to be a door
        except ConnectionError:
            pass
print("heard of the store" if False in heard else "heard nothing of the store")
"""


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_the_ranks_meet_and_strangers_do_not(lab: Lab, shared_directory: Path, launcher: str) -> None:
    (shared_directory / "train.py").write_text(TRAIN)
    (shared_directory / "stranger.py").write_text(STRANGER)
    words = ["-N", "2", "--ntasks-per-node", "1", "-t", "10", "--closed", "--launcher", launcher, "--hang", "off"]
    (shared_directory / "go").unlink(missing_ok=True)
    argv = [MUSTER, "submit", *words, "--", sys.executable, "train.py", "go"]
    submitted = checked(lab.exec(argv, cwd=shared_directory))
    job = re.findall(r"\d+", submitted.stdout)[0]

    place = None
    deadline = time.monotonic() + PATIENCE_S
    while place is None and time.monotonic() < deadline:
        time.sleep(0.5)
        place = re.search(r"met 2 (\S+) (\d+)", lab.exec([MUSTER, "logs", job]).stdout)
    assert place is not None
    for host in (None, "node1", "node2", "node3"):
        stranger = ["/usr/bin/python3", str(shared_directory / "stranger.py"), *place.groups()]
        assert checked(lab.exec(stranger, host=host, user="alice")).stdout == "heard nothing of the store\n"
    (shared_directory / "go").touch()

    assert wait_until_ended(lab, job) == "COMPLETED"
    text = checked(lab.exec([MUSTER, "logs", job])).stdout
    assert text.count("met 2") == 2
    refused = re.findall(r"door: refused a connection to the ranks' store from \S+: (.*)", text)
    assert {"alice", "a user of a host that is not the job's"} <= set(refused)
