"""Which store the ranks of a method meet in, and how each rank opens it."""

import atexit
import itertools
import os
from datetime import timedelta
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Tuple

from . import contract, mpi
from .address import meeting, scope
from .errors import WireupError
from .identity import Identity
from .methods import Method
from .store import Store, connect, numeric, seconds_apart, serve

# A program may join, leave and join again: each turn has its own names, and rank 0 keeps the store that it serves.
# Ranks that are quicker than rank 0 would otherwise meet in the store of the turn before, which is about to go.
_turns = itertools.count()
_servers: Dict[Tuple[int, str, int], Store] = {}
atexit.register(_servers.clear)  # while Python is still whole


def rendezvous(
    environment: Mapping[str, str], identity: Identity, method: Method
) -> Tuple[str, Callable[[float], Store]]:
    """Return the numeric address of rank 0 ('' where none is needed), and how to open a store there."""
    if identity.size == 1:
        return "", _in_this_process
    turn = next(_turns)
    again = f"-again-{turn}" if turn else ""
    if method.meets == "file":
        path = _store_file(environment, identity, again)
        return "", lambda wait_s: _in_file(path, identity.size, wait_s)
    point = mpi.meeting(environment) if method.meets == "mpi4py" else meeting(environment, identity)
    address = numeric(point.host, point.port)
    # torchrun's agent keeps a store at this address; then nobody else opens one.
    serves = identity.rank == 0 and environment.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
    own_server: List[Store] = []
    stagger = seconds_apart(environment, identity.size)

    def open_store(wait_s: float) -> Store:
        if serves and not own_server:
            own_server.append(_server(address, point.port, wait_s))
            return prefixed(own_server[0], point.scope + again)
        store = connect(
            address, point.port, rank=identity.rank, size=identity.size, timeout_s=wait_s, stagger_s=stagger
        )
        return prefixed(store, point.scope + again)

    return address, open_store


def _server(address: str, port: int, wait_s: float) -> Store:
    """Return the store that this process serves there, of this turn or an earlier one."""
    place = (os.getpid(), address, port)
    if place not in _servers:
        _servers[place] = serve(address, port, wait_s)
    _servers[place].set_timeout(timedelta(seconds=wait_s))
    return _servers[place]


def prefixed(store: Store, prefix: str) -> Store:
    """Return the same store, with all names under that prefix."""
    from torch.distributed import PrefixStore

    return PrefixStore(prefix, store)


def _in_this_process(wait_s: float) -> Store:
    from torch.distributed import HashStore

    store = HashStore()
    store.set_timeout(timedelta(seconds=wait_s))
    return store


def _in_file(path: str, size: int, wait_s: float) -> Store:
    from torch.distributed import FileStore

    store = FileStore(path, 2 * size)  # each rank opens it twice; the last to close it removes it
    store.set_timeout(timedelta(seconds=wait_s))
    return store


def _store_file(environment: Mapping[str, str], identity: Identity, again: str) -> str:
    directory = environment.get(contract.RUN_DIRECTORY, "")
    if not directory:
        raise WireupError(
            "method nccl-file needs a directory that every rank sees, but MUSTER_RUN_DIR is not set",
            "start with muster run or muster submit, or set MUSTER_RUN_DIR to a fresh directory of this run",
        )
    path = Path(directory) / f"{scope(environment, identity).replace('/', '-')}{again}.store"
    _make_writable(path)
    return str(path)


def _make_writable(path: Path) -> None:
    """Make the run directory, which only submit makes, and refuse what torch's FileStore would try for five minutes."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise WireupError(
            f"method nccl-file cannot write {path}: {error.strerror}",
            "MUSTER_RUN_DIR has to be a directory that every rank sees and may write",
        ) from None
