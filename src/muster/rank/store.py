"""The store in which ranks meet: started early on rank 0, reached without delay by the others.

Two things make torch's own rendezvous slow, and both are left out here. A client that finds no store yet waits half
a second and more before it tries again; ours asks every few milliseconds and connects once it is there. And every
connection costs two reverse DNS look-ups, one of them in the server's only thread, so a resolver that takes 20 ms
makes 128 ranks wait 2.7 s and a silent one 10 s (torch 2.13, `formatSockAddr`; /etc/hosts does not help, since the
address asked for is IPv4 in IPv6 form): meanwhile this process looks names up in files only.
"""

import contextlib
import json
import random
import socket
import time
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator, List, Mapping, Optional, Sequence

from . import contract
from .errors import WireupError

Store = Any  # torch.distributed.Store; this module is read before torch is imported

# Above this, ranks knock spread over a while: 0.1 ms each keeps 10,000 ranks within a second.
_STAGGER_ABOVE = 512
_STAGGER_S_PER_RANK = 1e-4
_LONGEST_STAGGER_S = 1.0

# What rank 0 may take, after the deadline, to tell the others who is missing.
_PUBLISHING_S = 15.0

# How long it stays for them to read that.
_LINGER_S = 5.0


def numeric(host: str, port: int) -> str:
    """Return the host's address in numbers, IPv4 before IPv6. Raise WireupError for an unknown name."""
    try:  # as bytes: a text would load Python's tables for international names, 3 ms in each rank
        addresses = socket.getaddrinfo(
            host.encode("ascii" if host.isascii() else "idna"), port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise WireupError(
            f"the host of rank 0, {host!r}, has no address here: {getattr(error, 'strerror', '') or error}",
            "set MASTER_ADDR to a name or address of it that every host knows",
        ) from None
    return str(min(addresses, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


@contextlib.contextmanager
def files_only() -> Iterator[None]:
    """Let glibc answer host names from /etc/hosts alone, within the block. Elsewhere than on glibc nothing changes."""
    import ctypes

    configure = getattr(ctypes.CDLL(None), "__nss_configure_lookup", None)
    if configure is None:
        yield
        return
    services = _hosts_services()
    configure(b"hosts", b"files")
    try:
        yield
    finally:
        configure(b"hosts", services.encode())


def _hosts_services(path: str = "/etc/nsswitch.conf") -> str:
    """Return what this system's `hosts:` line says; glibc's default where there is none."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        database, _, services = line.partition("#")[0].partition(":")
        if database.strip() == "hosts" and services.strip():
            return services.strip()
    return "dns [!UNAVAIL=return] files"


def serve(address: str, port: int, timeout_s: float) -> Store:
    """Start the store here, on rank 0. Raises WireupError when the address is another host's or the port is taken."""
    from torch.distributed import TCPStore

    _refuse_foreign_address(address)
    try:
        return TCPStore(address, port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))
    except RuntimeError as error:
        is_taken = "EADDRINUSE" in str(error) or "Address already in use" in str(error)  # torch 2.13; 2.3
        reason = "is taken by another program" if is_taken else f"cannot be used: {error}"
        raise WireupError(
            f"port {port} of {socket.gethostname()}, where rank 0 is to listen, {reason}",
            "set MASTER_PORT to a free port for all ranks; muster run and muster submit choose one",
        ) from None


def _refuse_foreign_address(address: str) -> None:
    with contextlib.closing(socket.socket(_family(address), socket.SOCK_STREAM)) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            raise WireupError(
                f"rank 0 is on {socket.gethostname()}, but the ranks are to meet at {address}, another host's address",
                "MASTER_ADDR must be the host of rank 0: unset it if an outer job left it",
            ) from None


def seconds_apart(environment: Mapping[str, str], size: int) -> float:
    """Return by how much each rank's first connection comes after the one before.

    Nothing in a small world, or as asked.
    """
    text = environment.get(contract.STAGGER, "")
    if not text:
        return _STAGGER_S_PER_RANK if size > _STAGGER_ABOVE else 0.0
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= _LONGEST_STAGGER_S:
            return float(text)
    raise WireupError(
        f"{contract.STAGGER}={text} is not a time between two ranks", f"give seconds from 0 to {_LONGEST_STAGGER_S:g}"
    )


def connect(address: str, port: int, *, rank: int, size: int, timeout_s: float, stagger_s: float = 0.0) -> Store:
    """Return a connection to rank 0's store, as soon as it is there.

    Raise WireupError when it is not within `timeout_s`.
    """
    from torch.distributed import TCPStore

    deadline = time.monotonic() + timeout_s
    time.sleep(min(rank * stagger_s, timeout_s / 10))
    _await_listener(address, port, size, deadline)
    patience = timedelta(seconds=max(1.0, deadline - time.monotonic()))
    try:
        return TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=patience)
    except RuntimeError as error:
        raise WireupError(
            f"rank {rank} on {socket.gethostname()} cannot reach the store of rank 0 at {address}:{port}: {error}",
            "read the message of rank 0 first: it may have ended",
        ) from None


def _await_listener(address: str, port: int, size: int, deadline: float) -> None:
    """Knock until somebody listens: for a second all ranks together 5,000 times, later 1,000 times a second.

    More than that would take the cores that rank 0 needs to come up, where many ranks share a host.
    """
    pause_s, longest_s = max(0.002, size / 5000), max(0.1, size / 1000)
    patience_ends = time.monotonic() + 1.0
    while True:
        refusal = _knock(address, port, max(0.1, min(5.0, deadline - time.monotonic())))
        if refusal is None:
            return
        if time.monotonic() >= deadline:
            raise WireupError(
                f"rank 0 has not opened its store at {address}:{port} in time ({refusal.strerror or refusal})",
                "check that rank 0 started, and that a firewall between the hosts lets this port pass; "
                "muster.world(timeout=…) waits longer",
            )
        time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311
        if time.monotonic() > patience_ends:
            pause_s = min(pause_s * 1.5, longest_s)


def _knock(address: str, port: int, timeout_s: float) -> Optional[OSError]:
    """Return None if somebody listens there, else what the kernel said."""
    with contextlib.closing(socket.socket(_family(address), socket.SOCK_STREAM)) as probe:
        probe.settimeout(timeout_s)
        try:
            probe.connect((address, port))
        except OSError as error:
            return error
    return None


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def exchange(store: Store, name: str, mine: Any, *, rank: int, size: int, deadline: float) -> List[Any]:
    """Return what each rank has put under `name` (anything JSON can hold), in rank order, on every rank.

    Rank 0 collects and publishes once, so each rank asks once. Raises MissingRanks, on every rank, when some do not
    come in time.
    """
    store.set(f"{name}/{rank}", json.dumps(mine))
    if rank == 0:
        store.set(name, zlib.compress(json.dumps(_collect(store, name, size, deadline)).encode()))
    try:
        with _patience(store, deadline + _PUBLISHING_S):
            records = json.loads(zlib.decompress(store.get(name)))
        missing = [number for number, record in enumerate(records) if record is None]
        if missing:
            store.add(f"{name}/read", 1)
    except RuntimeError as error:
        raise WireupError(
            f"rank 0 went away while the ranks were joining ({error})", "read its own message first"
        ) from None
    if missing:
        raise MissingRanks(missing, records)
    return list(records)


def linger(store: Store, name: str) -> None:
    """Keep rank 0's store until all that came have read what was exchanged under `name`."""
    deadline = time.monotonic() + _LINGER_S
    with contextlib.suppress(RuntimeError):
        rank_count = sum(record is not None for record in json.loads(zlib.decompress(store.get(name))))
        while store.add(f"{name}/read", 0) < rank_count and time.monotonic() < deadline:
            time.sleep(0.01)


def _collect(store: Store, name: str, size: int, deadline: float) -> List[Any]:
    """Return every rank's record, None for those that have not come by the deadline."""
    keys = [f"{name}/{rank}" for rank in range(size)]
    try:
        with _patience(store, deadline):
            return [json.loads(record) for record in store.multi_get(keys)]
    except RuntimeError:  # torch's DistStoreError: not all have come
        return [json.loads(store.get(key)) if store.check([key]) else None for key in keys]


@contextlib.contextmanager
def _patience(store: Store, deadline: float) -> Iterator[None]:
    """Wait for what is read until the deadline, within the block. `store.wait` would be one more question to rank 0."""
    old_timeout = store.timeout
    store.set_timeout(timedelta(seconds=max(0.001, deadline - time.monotonic())))
    try:
        yield
    finally:
        store.set_timeout(old_timeout)


class MissingRanks(WireupError):
    """Some ranks have not come; `records` has what the others said, None for the missing."""

    def __init__(self, missing: Sequence[int], records: Sequence[Any]) -> None:
        super().__init__(f"{len(missing)} of {len(records)} ranks have not come")
        self.missing = tuple(missing)
        self.records = tuple(records)
