"""Real ranks on this machine, forked from the test's process so that torch is imported once for all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

Environment = Callable[[int, int], dict[str, str]]


@dataclass(frozen=True)
class Ended:
    """How one rank ended (128 + n for a signal), and what it wrote."""

    status: int
    out: str
    err: str


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def torch_variables(rank: int, size: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size)}


def together(
    size: int,
    body: Callable[[], None],
    *,
    environment: Environment = torch_variables,
    only: Callable[[int], bool] = lambda rank: True,
    timeout_s: float = 60.0,
) -> list[Ended]:
    """Run `body` as each rank to its end. `only`: which ranks start at all. Ranks that hang are killed."""
    import_module("torch.distributed")  # in the parent, once
    import_module("torch._dynamo")  # every rank's first optimizer imports it: more than a second each
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI"))}
    with tempfile.TemporaryDirectory() as directory:
        pids = {
            rank: _start(body, {**kept, **shared, **environment(rank, size)}, Path(directory) / str(rank))
            for rank in range(size)
            if only(rank)
        }
        statuses = _wait(pids, timeout_s)
        return [
            Ended(statuses[rank], *((Path(directory) / f"{rank}.{name}").read_text() for name in ("out", "err")))
            for rank in pids
        ]


def _start(body: Callable[[], None], environment: Mapping[str, str], files: Path) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons dislike a fork beside threads; the parent's do nothing here
        pid = os.fork()
    if pid == 0:
        _become_rank(body, environment, files)
    return pid


def _become_rank(body: Callable[[], None], environment: Mapping[str, str], files: Path) -> NoReturn:
    status = 1
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{files}.{name}", os.O_WRONLY | os.O_CREAT, 0o600), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ.clear()
        os.environ.update(environment)
        body()
        status = 0
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
        print("" if isinstance(left.code, int) else left.code or "", file=sys.stderr)
    except BaseException:  # noqa: BLE001  # whatever it is: its words are the test's result
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pids: Mapping[int, int], timeout_s: float) -> dict[int, int]:
    deadline = time.monotonic() + timeout_s
    waiting, statuses = dict(pids), {}
    while waiting:
        for rank, pid in list(waiting.items()):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                statuses[rank] = code if code >= 0 else 128 - code
                del waiting[rank]
        time.sleep(0.01)
    return statuses


@contextlib.contextmanager
def listener(port: int) -> Iterator[None]:
    """A stranger on that port."""
    with contextlib.closing(socket.socket()) as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        yield
