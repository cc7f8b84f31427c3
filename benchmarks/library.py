"""What joining costs: many simulated ranks on this machine, with no resolver, a slow one and one that never answers.

    python benchmarks/library.py                     the table of the documentation
    python benchmarks/library.py --ranks 8 --resolver silent --how world --json

Ranks are forked from one process that has imported torch, so that 128 fit on a small machine. They live in a network
namespace of their own, in which this program is the only name server. Ratios are taken within one run, interleaved.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

INSIDE = "MUSTER_BENCH_INSIDE"
RESOLVERS = ("none", "slow", "silent")
SLOW_S = 0.020


# --- the namespace and its name server ------------------------------------------------------------------------------


def in_namespace(words: list[str]) -> int:
    """Run this program again, as root of a network and mount namespace of its own; its exit status."""
    os.environ[INSIDE] = "1"
    unshare = ["unshare", "--user", "--map-root-user", "--net", "--mount", sys.executable, *words]
    return os.spawnvp(os.P_WAIT, unshare[0], unshare)  # noqa: S606


def prepare_namespace(directory: Path, resolver: str) -> None:
    """Loopback up; this machine's name service replaced by ours."""
    (directory / "nsswitch.conf").write_text("hosts: files\n" if resolver == "none" else "hosts: files dns\n")
    (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    commands = [
        "ip link set lo up",
        *(f"mount --bind {directory / name} /etc/{name}" for name in ("nsswitch.conf", "resolv.conf")),
    ]
    for command in commands:
        if os.spawnvp(os.P_WAIT, command.split()[0], command.split()):  # noqa: S606
            raise SystemExit(f"{command} failed: this kernel lets no user make namespaces")


class NameServer:
    """Counts questions; answers each with "no such name" after `delay_s`, or never."""

    def __init__(self, delay_s: float | None) -> None:
        self.questions = 0
        self.delay_s = delay_s
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            question, sender = self.socket.recvfrom(512)
            self.questions += 1
            if self.delay_s is not None:
                no_such_name = question[:2] + b"\x81\x83" + question[4:]
                threading.Timer(self.delay_s, self.socket.sendto, (no_such_name, sender)).start()


# --- what the ranks do ----------------------------------------------------------------------------------------------


def world(_rank: int, _size: int) -> None:
    """The whole of `muster.world()`: store, seats, process group, the checking collective."""
    import muster

    with muster.world(timeout=120):
        arrived()


def meet(rank: int, size: int) -> None:
    """Of `muster.world()` only the store and the exchange of seats."""
    from muster.rank.identity import identify
    from muster.rank.rendezvous import rendezvous
    from muster.rank.store import exchange, files_only

    identity = identify(os.environ)
    _, open_store = rendezvous(os.environ, identity)
    with files_only():
        store = open_store(120.0)
        exchange(store, "place", rank, rank=rank, size=size, deadline=time.monotonic() + 120)
    arrived()
    leave(store, rank, size)


def raced(rank: int, size: int) -> None:
    """torch's own env:// rendezvous, all at once, and a barrier in its store."""
    from torch.distributed import rendezvous

    store, _, _ = next(rendezvous("env://"))
    if store.add("came", 1) == size:
        store.set("all", "")
    store.wait(["all"])
    arrived()
    leave(store, rank, size)


def group(_rank: int, _size: int) -> None:
    """torch's own start to the end of the first collective, with gloo's full mesh."""
    import torch
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    arrived()
    dist.destroy_process_group()


def arrived() -> None:
    """Say when; then stay until all have, so that nobody's end takes the cores from those still on their way."""
    print(time.monotonic(), flush=True)
    os.read(0, 1)


def leave(store: object, rank: int, size: int) -> None:
    """Rank 0 keeps the store until the others have gone."""
    if store.add("gone", 1) < size and rank == 0:  # type: ignore[attr-defined]
        while store.add("gone", 0) < size:  # type: ignore[attr-defined]
            time.sleep(0.01)


HOW: dict[str, Callable[[int, int], None]] = {"world": world, "meet": meet, "raced": raced, "group": group}


# --- running and measuring ------------------------------------------------------------------------------------------


def together(how: str, size: int, port: int) -> tuple[float, float]:
    """Seconds from the common start to the last rank's arrival, and the seconds of CPU that all ranks took."""
    lines, ready, go, end = (os.pipe() for _ in range(4))  # each (read, write)
    pids = []
    for rank in random.Random(port).sample(range(size), size):  # rank 0 is seldom the first
        pid = os.fork()
        if pid == 0:
            os.close(go[1])
            os.close(end[1])
            os.dup2(end[0], 0)
            os.dup2(lines[1], 1)
            become_rank(how, rank, size, port, ready[1], go[0])
        pids.append(pid)
    for inner in (lines[1], ready[1], go[0], end[0]):
        os.close(inner)
    while os.read(ready[0], size):  # until the last rank waits
        pass
    started = time.monotonic()
    os.close(go[1])
    with os.fdopen(lines[0]) as told:
        arrived = [float(line) for _, line in zip(range(size), told, strict=False)]
    os.close(end[1])
    os.close(ready[0])
    ended = [os.wait4(pid, 0) for pid in pids]
    if any(status for _, status, _ in ended) or len(arrived) != size:
        raise SystemExit(f"{how}: {size - len(arrived)} of {size} ranks did not arrive")
    return max(arrived) - started, sum(usage.ru_utime + usage.ru_stime for _, _, usage in ended)


def become_rank(how: str, rank: int, size: int, port: int, ready: int, go: int) -> None:
    status = 1
    try:
        sys.stdout = os.fdopen(1, "w")
        given = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in given.items()})
        os.environ["LOCAL_WORLD_SIZE"] = str(size)
        touch_what_joining_reads()
        os.close(ready)
        os.read(go, 1)
        HOW[how](rank, size)
        status = 0
    finally:
        os._exit(status)


def touch_what_joining_reads() -> None:
    """Join a world of one: a forked rank shares its pages with the others until it first writes to them (500 faults,
    2 ms), and a rank that was started by itself has its own.
    """
    from torch.distributed import HashStore

    from muster.rank.identity import identify
    from muster.rank.rendezvous import rendezvous
    from muster.rank.store import exchange, files_only

    rendezvous(os.environ, identify(os.environ))
    with files_only():
        exchange(HashStore(), "place", 0, rank=0, size=1, deadline=time.monotonic() + 10)


def measure(size: int, resolver: str, hows: list[str], rounds: int) -> dict[str, Any]:
    """Medians over `rounds`, the ways of joining interleaved, and the questions that the name server heard."""
    import ctypes  # noqa: F401  # once, for all ranks

    import torch.distributed

    import muster

    importlib.import_module(muster.world.__module__)
    torch.set_num_threads(1)
    server = NameServer(SLOW_S if resolver == "slow" else None) if resolver != "none" else None
    seconds: dict[str, list[float]] = {how: [] for how in hows}
    cpu: dict[str, list[float]] = {how: [] for how in hows}
    questions = dict.fromkeys(hows, 0)
    for turn in range(rounds):
        for position, how in enumerate(hows):
            before = server.questions if server else 0
            wall_s, cpu_s = together(how, size, 20_000 + 100 * turn + position)
            seconds[how].append(wall_s)
            cpu[how].append(cpu_s)
            questions[how] += (server.questions if server else 0) - before
    return {
        "ranks": size,
        "resolver": resolver,
        "seconds": {how: round(statistics.median(seconds[how]), 4) for how in hows},
        "cpu_seconds": {how: round(statistics.median(cpu[how]), 4) for how in hows},
        "spread": {how: [round(min(seconds[how]), 4), round(max(seconds[how]), 4)] for how in hows},
        "questions": questions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=128)
    parser.add_argument("--resolver", choices=RESOLVERS, action="append", help="repeatable; default all")
    parser.add_argument("--how", choices=HOW, action="append", help="repeatable; default world, meet and raced")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object per resolver")
    options = parser.parse_args()
    resolvers = options.resolver or RESOLVERS
    if INSIDE in os.environ:
        with tempfile.TemporaryDirectory() as directory:
            prepare_namespace(Path(directory), resolvers[-1])
            result = measure(options.ranks, resolvers[-1], options.how or ["world", "meet", "raced"], options.rounds)
        show(result, options.json)
        return
    for resolver in resolvers:
        if in_namespace([*sys.argv, "--resolver", resolver]):
            raise SystemExit(1)


def show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
        return
    for how, seconds in result["seconds"].items():
        low, high = result["spread"][how]
        print(
            f"{result['ranks']} ranks  resolver {result['resolver']:<6}  {how:<6} {seconds:8.3f} s"
            f"  ({low:.3f} to {high:.3f})  CPU {result['cpu_seconds'][how]:7.2f} s"
            f"  {result['questions'][how]:5d} questions to the name server"
        )


if __name__ == "__main__":
    main()
