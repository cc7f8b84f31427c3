"""Names, asked for as torch asks: forward, and backward for each address, each with a patience of its own."""

import socket
import threading
import time
from typing import List, Optional, Sequence, Tuple

from .facts import Lookup

PATIENCE_S = 5.0
_MOST = 16


def some_of(hosts: Sequence[str], own_index: int) -> List[str]:
    """Return the names that a node asks for: all of a small job.

    Of a large one the first, its own and its neighbours.
    """
    if len(hosts) <= _MOST:
        return list(hosts)
    neighbours = [hosts[(own_index + step) % len(hosts)] for step in range(_MOST - 1)]
    return list(dict.fromkeys([hosts[0], *neighbours]))


def look_up(names: Sequence[str]) -> List[Lookup]:
    """Look up all names at once; a resolver that does not answer costs the patience, once."""
    lookups = [
        Lookup(name=name, addresses=[], seconds=None, reverse=None, reverse_s=None) for name in dict.fromkeys(names)
    ]
    threads = [threading.Thread(target=_ask, args=(lookup,), daemon=True) for lookup in lookups]
    for asker in threads:
        asker.start()
    deadline = time.monotonic() + PATIENCE_S
    for asker in threads:
        asker.join(max(0.0, deadline - time.monotonic()))
    # The threads may still write: what is told is what was known now.
    return [Lookup(**lookup) for lookup in lookups]


def _ask(lookup: Lookup) -> None:
    start_s = time.monotonic()
    addresses, _ = _forward(lookup["name"])
    lookup["addresses"] = addresses
    lookup["seconds"] = round(time.monotonic() - start_s, 4)
    if not addresses:
        return
    start_s = time.monotonic()
    lookup["reverse"] = _backward(addresses[0])
    lookup["reverse_s"] = round(time.monotonic() - start_s, 4)


def _forward(name: str) -> Tuple[List[str], Optional[str]]:
    try:
        answers = socket.getaddrinfo(name, None, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        return [], str(error)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers)), None


def _backward(address: str) -> str:
    """Return the name of an address, "" where there is none: asked as torch does, for IPv4 in IPv6's clothes."""
    mapped_address = address if ":" in address else f"::ffff:{address}"
    try:
        name, _ = socket.getnameinfo((mapped_address, 0, 0, 0), socket.NI_NUMERICSERV)
    except OSError:
        return ""
    return "" if name in (address, mapped_address) else name
