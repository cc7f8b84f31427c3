"""The store where the ranks will meet: as the ranks of a closed job use it, and as a stranger tries it."""

import json
import select
import socket
import struct
import sys
import time
from typing import Iterator, Tuple

from muster.rank.finding import BROKEN, NOTE, Finding

from .facts import CheckedWorld, Stranger

STRANGER = {"stranger": True}
"""What a stranger says to rank 0 and hears from it: torch's own store would not ask for more."""

JOINED, REFUSED, UNREACHABLE, UNKNOWN = "joined", "refused", "unreachable", "unknown"
# Of torch's protocol: the greeting, and words by their place in its QueryType.
_GREETING = b"\0" + struct.pack("=I", 0x3C85F7CE)
_SET, _GET, _WAIT, _DELETE = b"\1", b"\3", b"\6", b"\x08"
_KEY = struct.pack("=Q", 12) + b"muster/check"
_DIGITS = 5
_STRANGER_WAITS_S = 3.0
_ONE_TRY_S = 2.5
"""So long one connection to the store may bring nothing before another one is tried."""


def tell_port(address: str, port: int, own_port: int, patience_s: float) -> None:
    """Write the port at which rank 0 hears the others into the store of a closed job, whose door has the job's port."""
    value = struct.pack("=Q", _DIGITS) + b"%0*d" % (_DIGITS, own_port)
    _speak(address, port, patience_s, (_SET + _KEY + value, 0), (_GET + _KEY, len(value)))


def ask_port(address: str, port: int, patience_s: float) -> int:
    """Return the port that rank 0 has written."""
    wait = _WAIT + struct.pack("=Q", 1) + _KEY
    return int(_speak(address, port, patience_s, (wait, 1), (_GET + _KEY, 8 + _DIGITS))[8:])


def forget_port(address: str, port: int) -> None:
    """Remove the port from the store, in which the script's own keys will stand."""
    _speak(address, port, 1.0, (_DELETE + _KEY, 8))


def _speak(address: str, port: int, patience_s: float, *words: Tuple[bytes, int]) -> bytes:
    """Say words to the store, each with the length of its answer; return the last answer."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            with socket.create_connection((address, port), timeout=min(_ONE_TRY_S, patience_s)) as store:
                store.sendall(_GREETING)
                answer = b""
                for word, length in words:
                    store.sendall(word)
                    answer = store.recv(length, socket.MSG_WAITALL) if length else b""
                    if len(answer) < length:
                        raise ConnectionError("the door closes the connection")
                return answer
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def await_stranger() -> None:
    """Wait while a stranger tries: `muster check` closes the standard input of rank 0 then."""
    if sys.stdin is not None:  # a launcher may have closed it
        select.select([sys.stdin], [], [], _STRANGER_WAITS_S)


def knock(host: str, address: str, port: int, *, closed: bool) -> Stranger:
    """Try to join the ranks from this host, without a secret; return what became of it."""
    tried = Stranger(host=host, address="", place=f"{address}:{port}", saw=UNKNOWN)
    words = json.dumps(STRANGER).encode()
    hello = _GREETING + _GET + _KEY if closed else struct.pack("!I", len(words)) + words
    try:
        stranger = socket.create_connection((address, port), timeout=_STRANGER_WAITS_S)
    except OSError as error:
        # After a refusal nobody is sure: rank 0 may have stopped listening, or a filter may answer in its place.
        tried["saw"] = UNKNOWN if isinstance(error, ConnectionRefusedError) else UNREACHABLE
        return tried
    with stranger:
        tried["address"] = stranger.getsockname()[0].rpartition("::ffff:")[2]
        try:
            stranger.sendall(hello)
            tried["saw"] = JOINED if stranger.recv(1) else REFUSED
        except ConnectionError:
            tried["saw"] = REFUSED
        except OSError:
            tried["saw"] = UNKNOWN
    return tried


def judge_strangers(world: CheckedWorld) -> Iterator[Finding]:
    """Say whether a process outside the job could join the ranks; a host of the job is not outside."""
    tried = (world.login or {}).get("stranger")
    interfaces = [interface for node in world.nodes for interface in node.get("interfaces", [])]
    own_addresses = {address for interface in interfaces for address in interface.get("addresses", [])}
    if tried is None or tried["host"] in world.hosts or tried["address"] in own_addresses:
        return
    place, closed = f"{tried['place']} from {tried['host']}", world.expected.get("closed", False)
    page = "muster docs closed says what stays open"
    if tried["saw"] == JOINED and closed:
        evidence = f"a process outside the job reached the closed store of the ranks at {place}"
        yield Finding("strangers", BROKEN, evidence, "SECURITY.md says how to report it")
    elif tried["saw"] == JOINED:
        evidence = f"a process outside the job reached rank 0 at {place}: there any user can join the ranks of torch"
        yield Finding("strangers", NOTE, evidence, f"--closed lets only your own processes in; {page}")
    elif tried["saw"] == REFUSED and closed:
        yield Finding("strangers", NOTE, f"a process outside the job was refused at {place}", page)
    elif tried["saw"] == UNREACHABLE:
        evidence = f"a process outside the job could not reach rank 0 at {place}"
        yield Finding("strangers", NOTE, evidence, "users of other hosts may; --closed lets only your own processes in")
