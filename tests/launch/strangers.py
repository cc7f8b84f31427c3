"""A closed job on a lab, and another user who tries to join its ranks."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.runner import checked
from plugins.labs import MUSTER, Lab

from .lab_runs import wait_until_ended

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
# Run as root, who may read every environment: the secrets of all doors here, and the commands that hold one.
WITNESS = """
import glob

keys, commands = set(), []
for process in glob.glob("/proc/[0-9]*"):
    try:
        words = open(process + "/environ", "rb").read().split(b"\\0")
        commands.append(open(process + "/cmdline", "rb").read())
    except OSError:
        continue
    keys |= {word.partition(b"=")[2] for word in words if word.startswith(b"MUSTER_DOOR_KEY=")} - {b""}
assert keys
print("in", sum(key in command for key in keys for command in commands), "commands")
"""


def hold_a_door(lab: Lab, folder: Path, words: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
    """Submit a closed job of two hosts with these options, let another user try to join it everywhere, and let it end.

    The ranks meet, nobody reads a byte, each who tried is named in the log, and no command holds the secret.
    """
    (folder / "train.py").write_text(TRAIN)
    (folder / "stranger.py").write_text(STRANGER)
    (folder / "witness.py").write_text(WITNESS)
    (folder / "go").unlink(missing_ok=True)
    size = ["-N", "2", "--ntasks-per-node", "1", "-t", "10", "--hang", "off"]
    argv = [MUSTER, "submit", *size, "--closed", *words, "--", sys.executable, "train.py", "go"]
    submitted = checked(lab.exec(argv, cwd=folder, env=env))
    job = re.findall(r"\d+", submitted.stdout)[0]

    place = None
    deadline = time.monotonic() + PATIENCE_S
    while place is None and time.monotonic() < deadline:
        time.sleep(1)  # each look costs a start of Muster
        place = re.search(r"met 2 (\S+) (\d+)", lab.exec([MUSTER, "logs", job]).stdout)
    assert place is not None, lab.exec([MUSTER, "logs", job]).stdout
    for host in (None, "node1", "node2", "node3"):
        stranger = ["/usr/bin/python3", str(folder / "stranger.py"), *place.groups()]
        assert checked(lab.exec(stranger, host=host, user="alice")).stdout == "heard nothing of the store\n"
    assert checked(lab.exec(["/usr/bin/python3", str(folder / "witness.py")])).stdout == "in 0 commands\n"
    (folder / "go").touch()

    assert wait_until_ended(lab, job) == "COMPLETED"
    text = checked(lab.exec([MUSTER, "logs", job])).stdout
    assert text.count("met 2") == 2
    refused = re.findall(r"door: refused a connection to the ranks' store from \S+: (.*)", text)
    assert {"alice", "a user of a host that is not the job's"} <= set(refused)
