"""The store that the ranks meet in, and how each rank opens it."""

import atexit
import itertools
import os
from datetime import timedelta
from typing import Callable, Dict, List, Mapping, Tuple

from .address import meeting
from .identity import Identity
from .store import Store, connect, numeric, seconds_apart, serve

# A program may join, leave and join again: each turn has its own names, and rank 0 keeps the store that it serves.
# Ranks that are quicker than rank 0 would otherwise meet in the store of the turn before, which is about to go.
_turns = itertools.count()
_servers: Dict[Tuple[int, str, int], Store] = {}
atexit.register(_servers.clear)  # while Python is still whole


def rendezvous(environment: Mapping[str, str], identity: Identity) -> Tuple[str, Callable[[float], Store]]:
    """Return the numeric address of rank 0 ('' where none is needed), and how to open a store there."""
    if identity.size == 1:
        return "", _in_this_process
    turn = next(_turns)
    again = f"-again-{turn}" if turn else ""
    point = meeting(environment, identity)
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
