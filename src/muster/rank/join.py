"""How a rank joins: identity, meeting point, store, seat, device, process group, in this order."""

import contextlib
import os
import socket
import sys
import time
from datetime import timedelta
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .address import interface_towards
from .devices import Backend, Torch, choose_backend, eager_is_safe, gpu_index, name_of, refuse_shared, this_torch
from .errors import WireupError
from .identity import Identity, identify
from .methods import Method
from .rendezvous import prefixed, rendezvous
from .roster import Introduction, Seat, absent, seats, split
from .store import MissingRanks, Store, exchange, files_only, linger, numeric
from .torch_range import refuse_old_torch
from .vendors import vendor_of_device
from .watch import Watch, started_at

# Ranks start minutes apart where thousands of them read torch from one file system (50 s to 236 s for 8 nodes).
_JOIN_S, _JOIN_S_PER_RANK, _LONGEST_JOIN_S = 300.0, 0.1, 1800.0

# Below this, gloo's full mesh is made faster than it is missed (2 N store requests a rank; 1 and log N when lazy).
_LAZY_GLOO_FROM = 64

# For gloo's threads to let go of the last collective's tensors: torch 2.3 waits for these threads with Python's lock
# held, and a thread that frees a tensor needs that lock (seen in one leave of three).
_GLOO_SETTLES_S = 0.01


class Joined(NamedTuple):
    """A rank that has joined: what `World` shows, and what leaving needs."""

    method: Method
    identity: Identity
    seat: Seat
    seats: Tuple[Seat, ...]
    instance: int
    instances: int
    backend: Backend
    device: Any
    store: Optional[Store]
    watch: Optional[Watch]
    patience_s: float


def join(
    environment: Mapping[str, str],
    method: Method,
    backend: Optional[str] = None,
    timeout_s: Optional[float] = None,
    instances: int = 1,
) -> Joined:
    """Join the world that the environment describes. Raises WireupError with the reason and the way out."""
    torch = _usable_torch()
    backend_choice = choose_backend(backend or method.backend, environment, torch)
    if method.alone:
        return _alone(method, backend_choice)
    identity = identify(environment, method.family)
    wait_s = timeout_s or min(_JOIN_S + _JOIN_S_PER_RANK * identity.size, _LONGEST_JOIN_S)
    address, open_store = rendezvous(environment, identity)
    with files_only():  # until all have come: rank 0 serves the others' connections here
        # In this order: a store that answers has accepted the connection made before, and never asks for its name.
        for_watch, store = open_store(wait_s) if identity.size > 1 else None, open_store(wait_s)
        all_seats, own_seats, instance = _meet(store, identity, instances, wait_s)
    seat = own_seats[identity.rank % len(own_seats)]
    watch = None if for_watch is None else Watch(for_watch, all_seats, identity.rank)
    try:
        device = _device(backend_choice, all_seats[identity.rank], torch.gpus)
        if backend_choice.device_type != "cpu":
            names = _exchange(store, "gpu", name_of(device), identity, wait_s)
            refuse_shared([(seat.host, name) for seat, name in zip(all_seats, names)])
        if backend_choice.name == "gloo":
            _prepare_gloo(own_seats, seat.host, address)
        options = {} if timeout_s is None else {"timeout": timedelta(seconds=timeout_s)}
        own_store = prefixed(store, f"world-{instance}")
        _make_process_group(
            backend_choice, store=own_store, rank=seat.rank, size=len(own_seats), device=device, **options
        )
    except Exception as error:
        if watch is not None:
            watch.abort(first_line(error))
        raise
    return Joined(
        method=method,
        identity=identity,
        seat=seat,
        seats=own_seats,
        instance=instance,
        instances=instances,
        backend=backend_choice,
        device=device,
        store=store,
        watch=watch,
        patience_s=wait_s,
    )


def leave(joined: Joined) -> None:
    """Leave well: the process group first, then the store, which rank 0 keeps for the others to the last."""
    import torch.distributed as dist

    if dist.is_initialized():
        if joined.backend.name == "gloo":
            time.sleep(_GLOO_SETTLES_S)
        dist.destroy_process_group()
    if joined.watch is not None:
        joined.watch.leave(joined.patience_s)


def first_line(error: BaseException) -> str:
    """Return what a failure is called where one line must do."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def abort(joined: Joined, reason: str) -> None:
    """Leave because this rank fails: the others are told, and nothing is waited for."""
    import torch.distributed as dist

    if joined.watch is not None:
        joined.watch.abort(reason)
    if dist.is_initialized() and joined.backend.name == "gloo":  # NCCL's would wait for the others
        dist.destroy_process_group()


# --- who comes ------------------------------------------------------------------------------------------------------


def _meet(
    store: Store, identity: Identity, instances: int, wait_s: float
) -> Tuple[Tuple[Seat, ...], Tuple[Seat, ...], int]:
    """Return the seats of all ranks, those of this rank's world, and its number. Fails on every rank alike."""
    pid = os.getpid()
    place = Introduction(socket.gethostname(), pid, started_at(pid), identity.node_rank, identity.local_rank)
    try:
        records = _exchange(store, "place", list(place), identity, wait_s)
        all_seats = seats([Introduction(*record) for record in records])
        return (all_seats, *split(all_seats, identity.rank, instances))
    except WireupError as error:
        if identity.rank == 0:
            linger(store, "place")
        raise (_never_joined(error, identity, wait_s) if isinstance(error, MissingRanks) else error) from None


def _exchange(store: Store, name: str, record: Any, identity: Identity, wait_s: float) -> List[Any]:
    deadline = time.monotonic() + wait_s
    return exchange(store, name, record, rank=identity.rank, size=identity.size, deadline=deadline)


def _never_joined(missing: MissingRanks, identity: Identity, wait_s: float) -> WireupError:
    places = [Introduction(*record) if isinstance(record, list) else None for record in missing.records]
    return WireupError(
        f"{absent(missing.missing, places, identity)} of {identity.size} did not join within {wait_s:g} s",
        "read their output: they may not have started, or have ended before they joined; "
        "if they were only slow, give muster.world(timeout=…) more seconds",
    )


# --- device and process group ---------------------------------------------------------------------------------------


def _device(choice: Backend, seat: Seat, gpus: int) -> Any:
    """Return this rank's device; a GPU is made the current one before anything can touch another."""
    import torch

    if choice.device_type == "cpu":
        return torch.device("cpu")
    device = torch.device(choice.device_type, gpu_index(seat.local_rank, gpus, seat.host))
    getattr(torch, choice.device_type).set_device(device)
    return device


def _make_process_group(choice: Backend, *, store: Store, rank: int, size: int, device: Any, **options: Any) -> None:
    import torch
    import torch.distributed as dist

    vendor = vendor_of_device(choice.device_type)
    if vendor is not None and vendor.eager and eager_is_safe(str(torch.__version__)):
        options["device_id"] = device
    try:
        dist.init_process_group(choice.name, store=store, rank=rank, world_size=size, **options)
    except RuntimeError as error:
        raise WireupError(
            f"rank {rank} of {size} cannot make the {choice.name} process group: {first_line(error)}",
            "check that the network between the hosts lets the ranks through; NCCL_SOCKET_IFNAME and "
            "GLOO_SOCKET_IFNAME name the interface to use",
        ) from error


def _prepare_gloo(own_seats: Sequence[Seat], host: str, address: str) -> None:
    """Give gloo the interface that reaches the others, and let large worlds connect when they first speak.

    By itself gloo takes the address of the host's name, which Debian's /etc/hosts makes a loopback address; on the host
    of rank 0 the meeting point may be one too, and then the way to another host decides.
    """
    interface = interface_towards(address) if address else ""
    other_host = next((seat.host for seat in own_seats if seat.host != host), None)
    if other_host and interface == interface_towards("127.0.0.1"):
        with contextlib.suppress(WireupError):
            interface = interface_towards(numeric(other_host, 0))
    if interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    if len(own_seats) >= _LAZY_GLOO_FROM:
        os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")


# --- the other way --------------------------------------------------------------------------------------------------


def _alone(method: Method, choice: Backend) -> Joined:
    identity = identify({})
    seat = seats([Introduction(socket.gethostname(), os.getpid(), 0, 0, 0)])[0]
    return Joined(method, identity, seat, (seat,), 0, 1, choice, _device(choice, seat, 1), None, None, 0.0)


def _usable_torch() -> Torch:
    """Return the facts of a torch that is there, new enough, and in no process group yet."""
    try:
        import torch.distributed as dist
    except ImportError:
        raise WireupError(
            f"this Python ({sys.executable}) has no torch", "activate the environment that has it, or use an image"
        ) from None
    facts = this_torch()
    refuse_old_torch(facts.version)
    if dist.is_initialized():
        raise WireupError(
            "this process is in a process group already, and muster.world() makes its own",
            "remove init_process_group from the script, or do not use muster.world()",
        )
    return facts
