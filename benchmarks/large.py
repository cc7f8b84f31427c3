"""What thousands of ranks cost where they meet: 64 to 10,000 light clients join a store, with and without a door.

    python benchmarks/large.py                        the table, and the slope on log scales
    python benchmarks/large.py --json points.json     the points too
    python benchmarks/large.py --read points.json --draw docs/pictures/joining.svg

The store is torch's own, in C++, or the door of a closed job with one node's door for each eight ranks, both as a job
starts them. They live in a network namespace of their own, in which this program is the only name server, and counts
what it is asked. The clients speak the protocol of the store as an unchanged script with NCCL does
(`init_process_group`, then the first collective's id), and import no torch: so 10,000 of them fit on this machine. Each
simulated node has an address of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from muster.cli.output import print_table, say
from muster.launchers.base import DOOR_PIECES
from muster.rank import door
from muster.render.parts import compose
from muster_bench.page import chart

library = import_module("library")  # it lies beside this file

SIZES = (64, 256, 1024, 4096, 10_000)
RANKS_PER_NODE = 8
KEY = bytes(range(32))
LONGEST_S, STEEPEST, MOST_OPERATIONS = 10.0, 1.1, 6
OPERATIONS = 3  # of each rank, after the greeting: ADD, WAIT, GET
TORCH = """\
import sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False)
print("up", flush=True)
sys.stdin.read()
"""

# Words of the protocol, by their place in torch's QueryType.
SET, GET, ADD, WAIT, PING = 1, 3, 4, 6, 13
GREETING = b"\0" + struct.pack("=I", 0x3C85F7CE)
UNIQUE_ID = os.urandom(128)


def text(value: bytes) -> bytes:
    return struct.pack("=Q", len(value)) + value


def address_of_node(node: int) -> str:
    return f"127.{1 + node // 65536}.{node // 256 % 256}.{1 + node % 255}" if node else "127.0.0.1"


class Rank:
    """One rank on its way: each step is what it says, and how many bytes it then waits for."""

    def __init__(self, rank: int, port: int) -> None:
        key = text(b"/default_pg/0//cuda//0/0")
        first = [bytes([SET]) + key + text(UNIQUE_ID)] if rank == 0 else []
        self.steps = [
            (GREETING + bytes([PING]) + struct.pack("=I", rank), 4),
            (bytes([ADD]) + text(b"init/") + struct.pack("=q", 1), 8),
            (b"".join(first) + bytes([WAIT]) + struct.pack("=Q", 1) + key, 1),
            (bytes([GET]) + key, 8 + len(UNIQUE_ID)),
        ]
        self.got = b""
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT: the kernel looks for the port later
        self.socket.bind((address_of_node(rank // RANKS_PER_NODE), 0))
        self.socket.connect_ex(("127.0.0.1", port))

    def go_on(self, events: int) -> bool:
        """Do what can be done; return whether the rank has joined."""
        if events & selectors.EVENT_READ:
            chunk = self.socket.recv(4096)
            if not chunk:
                raise SystemExit("a rank's connection was closed")
            self.got += chunk
            if len(self.got) < self.steps[0][1]:
                return False
            if len(self.steps) == 1:
                return self.got[8:] == UNIQUE_ID or sys.exit("a rank got another id")
            del self.steps[0]
            self.got = b""
        self.socket.sendall(self.steps[0][0])
        return False


def join(size: int, port: int) -> float:
    """Let so many ranks join; seconds until the last one has."""
    begun = time.monotonic()
    with selectors.DefaultSelector() as selector:
        ranks = [Rank(rank, port) for rank in range(size)]
        for rank in ranks:
            selector.register(rank.socket, selectors.EVENT_WRITE, rank)
        left = size
        while left:
            for key, events in selector.select(120) or sys.exit("nothing happens any more"):
                rank = key.data
                if events & selectors.EVENT_WRITE:
                    selector.modify(rank.socket, selectors.EVENT_READ, rank)
                if rank.go_on(events):
                    selector.unregister(rank.socket)
                    left -= 1
        spent = time.monotonic() - begun
        for rank in ranks:
            rank.socket.close()
    return spent


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    """Return when somebody listens."""
    while True:
        with contextlib.closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)


def processor_s(pid: int) -> float:
    """Return the processor time that a process has taken, which a busy machine makes hardly longer."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_store(size: int) -> tuple[float, float]:
    """Join torch's own store."""
    port = free_port()
    with subprocess.Popen([sys.executable, "-c", TORCH, str(port)], stdin=-1, stdout=-1, stderr=-3) as store:
        try:
            wait_for(port)
            before_s = processor_s(store.pid)
            spent = join(size, port)
            return spent, processor_s(store.pid) - before_s
        finally:
            store.kill()


def closed_store(size: int) -> tuple[float, float]:
    """Join the store of a closed job; the doors of the other nodes, which come at the same moment, are counted in."""
    port, nodes = free_port(), math.ceil(size / RANKS_PER_NODE)
    environment = {**os.environ, "MUSTER_DOOR_KEY": KEY.hex()}
    words = ["store", str(port), str(os.getpid()), str(nodes)]
    with subprocess.Popen([sys.executable, "-I", "-c", compose(DOOR_PIECES), *words], env=environment) as process:
        try:
            wait_for(port)
            before_s = processor_s(process.pid)
            others = os.fork()
            if others == 0:
                answer_for_nodes(port, nodes)
            spent = join(size, port)
            return spent, processor_s(process.pid) - before_s
        finally:
            process.kill()
            os.waitpid(others, 0)


def answer_for_nodes(port: int, nodes: int) -> None:
    """Be the doors of all nodes but the first, until the first one ends."""
    own = threading.local()
    vars(door)["own_addresses"] = lambda: [own.address]

    def answer(node: int) -> None:
        own.address = address_of_node(node)
        with contextlib.suppress(OSError):  # the first door was killed
            door.answer_door(KEY, "127.0.0.1", port, lambda: False)

    threading.stack_size(256 << 10)
    threads = [threading.Thread(target=answer, args=(node,)) for node in range(1, nodes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0)


Point = tuple[int, float, float]


def slope(points: list[tuple[int, float]]) -> float | None:
    """Return by what power of the ranks the seconds grow; None: one size has no slope."""
    if len(points) < 2:
        return None
    x, y = ([math.log(max(value, 0.005)) for value in values] for values in zip(*points))
    return float(statistics.linear_regression(x, y).slope)


def rows(rounds: int, sizes: list[int]) -> Iterator[tuple[str, list[Point]]]:
    """Yield each store with its points: ranks, seconds until all have joined, processor seconds of the store."""
    for name, way in (("torch's store", open_store), ("closed", closed_store)):
        points = []
        for size in sizes:
            tries = [way(size) for _ in range(rounds)]
            points.append((size, *(statistics.median(values) for values in zip(*tries))))
            say(f"{name}: {size} ranks, {points[-1][1]:.3f} s, of the store {points[-1][2]:.2f} s")
        yield name, points


_STYLE = """
svg{background:#fcfcfa}text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#63666b}.name{font-weight:600}
.grid{stroke:#e2e2dd}@media(prefers-color-scheme:dark){svg{background:#141517}text{fill:#9b9ea4}.grid{stroke:#2c2e32}
.lines{filter:brightness(1.35)}}
"""


def picture(found: dict[str, list[Point]]) -> str:
    """Return the curve, for a page of the documents: processor time of the store over the number of ranks."""
    lines = {name: [(float(size), max(taken, 0.01)) for size, _, taken in points] for name, points in found.items()}
    drawn = chart(
        lines, [size for size, _ in lines["closed"]], lambda size: f"{size:,.0f}", value=lambda s: f"{s:.2f} s"
    )
    return drawn.replace('role="img"', 'role="img" xmlns="http://www.w3.org/2000/svg"', 1).replace(
        ">", f"><style>{_STYLE}</style>", 1
    )


def main() -> int:
    """Exit status: 1 if a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each figure (3)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of ranks")
    parser.add_argument("--names", action="store_true", help="let the programs ask the name server")
    parser.add_argument("--json", type=Path, help="write the points into this file")
    parser.add_argument("--read", type=Path, help="take the points from a file, and measure nothing")
    parser.add_argument("--draw", type=Path, help="draw the processor time of the store over the ranks")
    options = parser.parse_args()
    if options.read:
        options.draw.write_text(picture(json.loads(options.read.read_text())))
        return 0
    if library.INSIDE not in os.environ:
        return int(library.in_namespace(sys.argv))
    with tempfile.TemporaryDirectory() as folder:
        library.prepare_namespace(Path(folder), "slow" if options.names else "none")
        server = library.NameServer(None)
        found = dict(rows(options.rounds, list(options.sizes)))
    if options.json:
        options.json.write_text(json.dumps(found))
    table, over = [], False
    for name, points in found.items():
        power = slope([(size, spent) for size, spent, _ in points])
        of_store = slope([(size, taken) for size, _, taken in points if size >= 1000])  # less is a few clock ticks
        if of_store is None:
            say(f"{name}: no slope of the processor time: it takes two sizes of 1,000 ranks or more")
        is_over = (power or 0) > STEEPEST or points[-1][1] > LONGEST_S
        over |= is_over
        for size, spent, taken in points:
            table.append([name, str(size), f"{spent:.3f} s", f"{taken:.2f} s", f"{1e6 * taken / size:.0f} µs", ""])
        limits = f"≤ {STEEPEST}, ≤ {LONGEST_S:g} s"
        slopes = ["-" if each is None else f"{each:.2f}" for each in (power, of_store)]
        table.append([name, "slope", *slopes, limits, "over" if is_over else ""])
    questions = [f"{OPERATIONS}", f"≤ {MOST_OPERATIONS}", "over" if OPERATIONS > MOST_OPERATIONS else ""]
    table.append(["both", "operations of a rank", *questions, ""])
    table.append(["both", "questions to the name server", str(server.questions), "0", "", ""])
    columns = ["store", "ranks", "all have joined", "the store's processor time", "for a rank", ""]
    print_table("joining", columns, table)
    return int(over or server.questions > 0)


if __name__ == "__main__":
    sys.exit(main())
