"""The ranks together: who they are, and how they meet. `World` adds what a training script does with them."""

import contextlib
from datetime import timedelta
from typing import Any, Dict, Iterator, List, Tuple

from .errors import WireupError
from .join import Joined
from .store import Store

_DAY_S = 86_400.0


class Together:
    """Who the ranks are, as one of them sees them, and how they meet."""

    def __init__(self, joined: Joined) -> None:
        seat = joined.seat
        self.rank: int = seat.rank
        self.size: int = len(joined.seats)
        self.local_rank: int = seat.local_rank
        self.local_size: int = seat.local_size
        self.node_rank: int = seat.node_rank
        self.hosts: Tuple[str, ...] = tuple(dict(sorted((seat.node_rank, seat.host) for seat in joined.seats)).values())
        self.nodes: int = len(self.hosts)
        self.device: Any = joined.device
        self.backend: str = joined.backend.name
        self.method: str = joined.method.name
        self.instance: int = joined.instance
        self.instances: int = joined.instances
        self.joined = joined
        self._groups: Dict[Any, Any] = {}
        self._turns = 0

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size} on {self.joined.seat.host}, {self.device}, {self.backend}>"

    @property
    def alone(self) -> bool:
        """Return whether there is no process group: method "dummy"."""
        return self.joined.method.alone

    def print(self, *words: Any, **options: Any) -> None:
        """Print as `print` does, from rank 0 only."""
        if self.rank == 0:
            print(*words, **{"flush": True, **options})

    def barrier(self) -> None:
        """Wait until every rank is here."""
        if self.alone:
            return
        import torch.distributed as dist

        dist.barrier(**({} if self.device.type == "cpu" else {"device_ids": [self.device.index]}))

    def gather(self, value: Any) -> List[Any]:
        """Return every rank's value, in rank order, on every rank."""
        if self.alone:
            return [value]
        import torch.distributed as dist

        values: List[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def group(self, size: int, stride: int = 1) -> Any:
        """Return the process group of `size` ranks that this rank belongs to; every rank must ask for it.

        Ranks `stride` apart form a group: with stride 1 neighbours, with stride `local_size` one of each node. The
        groups of all ranks have the same shape, so `size` × `stride` must divide the world.
        """
        if size < 1 or stride < 1 or self.size % (size * stride):
            raise WireupError(
                f"groups of {size} ranks, {stride} apart, do not divide a world of {self.size}",
                f"size × stride must divide {self.size}",
            )
        start = self.rank - self.rank % (size * stride) + self.rank % stride
        return self._group(range(start, start + size * stride, stride))

    @property
    def node_group(self) -> Any:
        """Return the process group of the ranks on this host."""
        return self._group(seat.rank for seat in self.joined.seats if seat.node_rank == self.node_rank)

    def _group(self, ranks: Any) -> Any:
        """Return the group of these ranks, made once.

        Only its members meet, so 10,000 ranks do not wait for each group.
        """
        if self.alone:
            return None
        import torch.distributed as dist

        members = tuple(ranks)
        if members not in self._groups:
            local = self.backend != "mpi"  # torch's MPI backend cannot
            self._groups[members] = dist.new_group(list(members), use_local_synchronization=local)
        return self._groups[members]

    @contextlib.contextmanager
    def rank0_first(self, each_node: bool = False) -> Iterator[None]:
        """Run the body on rank 0 (or on one rank of each node) to its end, and only then on the others.

        For downloads and caches. The others wait as long as it takes, and fail when it fails.
        """
        self._turns += 1
        store = self.joined.store
        if self.size == 1:
            yield
            return
        if store is None:
            yield from self._first_without_store(each_node)
            return
        key = f"turn/{self.instance}/{self._turns}/{self.node_rank if each_node else 'all'}"
        if (self.local_rank if each_node else self.rank) == 0:
            with _telling(store, key):
                yield
        else:
            store.wait([key], timedelta(seconds=_DAY_S))
            failure = store.get(key).decode()
            if failure:
                raise WireupError(f"the rank that went first failed: {failure}", "read the message of that rank first")
            yield

    def _first_without_store(self, each_node: bool) -> Iterator[None]:
        """Do the same by a collective, where torch's MPI is all that there is: every rank hears how each body ended."""
        first = 0
        if each_node:
            own_seats = [seat for seat in self.joined.seats if seat.node_rank == self.node_rank]
            first = min(own_seats, key=lambda seat: seat.local_rank).rank
        if self.rank == first:
            try:
                yield
            except BaseException as error:
                self.gather(f"{type(error).__name__}: {error}")
                raise
            self.gather("")
            return
        failure = self.gather("")[first]
        if failure:
            raise WireupError(f"the rank that went first failed: {failure}", "read the message of that rank first")
        yield


@contextlib.contextmanager
def _telling(store: Store, key: str) -> Iterator[None]:
    """Tell those who wait under `key` how the body ended: '' for well, else the failure in words."""
    try:
        yield
    except BaseException as error:
        store.set(key, f"{type(error).__name__}: {error}")
        raise
    store.set(key, "")
