"""`muster.world()`: join the ranks, do what ranks do together, leave cleanly.

    import muster

    with muster.world() as world:
        model = world.ddp(Model().to(world.device))
        …
        world.print("once, from rank 0")

Everything that a training script does by hand because it has many ranks is one method here.
"""

import contextlib
import os
from datetime import timedelta
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from .errors import WireupError
from .join import Joined, abort, first_line, join, leave
from .methods import method_named
from .saving import Saving, time_left
from .store import Store

__all__ = ["World", "world"]

_DAY_S = 86_400.0


@contextlib.contextmanager
def world(
    method: str = "auto",
    backend: Optional[str] = None,
    timeout: Union[float, timedelta, None] = None,
    instances: Optional[int] = None,
) -> "Iterator[World]":
    """Join the ranks that were started together; on the way out leave them, also by an exception.

    method: where this rank's number comes from. "auto" takes what the launcher set (or `--wireup`, or the site's
        choice); the others are in `methods.py`. backend: "nccl" or "gloo"; by default NCCL on GPUs, gloo elsewhere.
    timeout: for joining and for each collective, in seconds; by default joining takes at most five minutes, and
        0.1 s more for each rank, and a collective what torch gives it.
    instances: split the ranks into so many worlds of the same size, each with a rank 0 of its own.

    Raises WireupError: a sentence, and a hint, on every rank that is concerned.
    """
    timeout_s = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    joined = join(os.environ, method_named(method, os.environ), backend, timeout_s, instances or 1)
    try:
        new_world = World(joined)
        new_world.check()
        try:
            yield new_world
        finally:
            new_world.end_saving()
    except BaseException as error:
        if _is_failure(error):
            abort(joined, first_line(error))
        else:
            leave(joined)
        raise
    else:
        leave(joined)


def _is_failure(error: BaseException) -> bool:
    return not (isinstance(error, SystemExit) and error.code in (None, 0))


class World:
    """The ranks together, as one of them sees them. Made by `world()`.

    rank, size: this rank and how many there are · local_rank, local_size: the same on this host ·
    node_rank, nodes: this host's number and how many there are · hosts: their names, rank 0's first ·
    device: where this rank's tensors belong · backend, method · instance, instances: of a split.
    """

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
        self._saving: Optional[Saving] = None

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size} on {self.joined.seat.host}, {self.device}, {self.backend}>"

    @property
    def alone(self) -> bool:
        """Return whether there is no process group: method "dummy"."""
        return self.joined.method.meets == "alone"

    # --- together ---------------------------------------------------------------------------------------------------

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
                raise WireupError(f"the rank that went first failed: {failure}", "its own message comes first")
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
            raise WireupError(f"the rank that went first failed: {failure}", "its own message comes first")
        yield

    # --- training ---------------------------------------------------------------------------------------------------

    def ddp(self, model: Any, batchnorm_group: Optional[int] = None, stride: int = 1, **options: Any) -> Any:
        """Return the model in DistributedDataParallel. It must lie on `world.device`.

        batchnorm_group: batch norm takes its statistics over groups of so many ranks, `stride` apart, and buffers are
        then no longer copied from rank 0 at each step. `options` go to DistributedDataParallel, and win.
        """
        from .training import ddp

        return ddp(self, model, batchnorm_group, stride, **options)

    def sampler(self, dataset: Any, train: bool = True, seed: int = 0) -> Any:
        """Return this rank's part of the data.

        For training shuffled and padded, else in order, each item exactly once.
        """
        from .training import sampler

        return sampler(self, dataset, train, seed)

    def loader(self, dataset: Any, batch_size: int, train: bool = True, **options: Any) -> Any:
        """Return a DataLoader over this rank's part, with workers for its own cores, started safely for the fabric."""
        from .training import loader

        return loader(self, dataset, batch_size, train, **options)

    def mean(self, value: Any, weight: float = 1.0) -> float:
        """Return the mean over all ranks of a number or a one-element tensor.

        `weight`: this rank's number of samples.
        """
        from .training import mean

        return mean(self, value, weight)

    def scale_learning_rate(self, optimizer: Any, warmup_steps: int, rule: str = "linear") -> Any:
        """Return a scheduler that raises the learning rate to `size` times ("sqrt": its root) over so many steps."""
        from .training import scale_learning_rate

        return scale_learning_rate(self, optimizer, warmup_steps, rule)

    def save(self, value: Any, path: Union[str, "os.PathLike[str]"]) -> None:
        """Save with `torch.save` from rank 0, whole or not at all.

        The others wait for its end and fail when it fails.
        """
        from .training import save

        save(self, value, path)

    def time_left(self) -> float:
        """Return the seconds until the job's time is over; infinity outside a job, or where no limit is known.

        With `--save-before` the limit is known; without it where Slurm is 23.02 or newer.
        """
        return time_left(os.environ)

    def should_save(self) -> bool:
        """Whether to save now, because the job ends soon: yes at the same call on all ranks, each once per signal.

        Call it once a step, on every rank. A call costs less than a microsecond. Always no without `--save-before`.
        """
        if self._saving is None:
            self._saving = self._begin_saving()
        answer = self._saving.should_save()
        # torch's MPI brings no store: there the ranks ask each other.
        alone = not self._saving.hears or self.size == 1 or self.joined.watch is not None
        return answer if alone else any(self.gather(answer))

    def end_saving(self) -> None:
        """Give the signal of should_save() back."""
        if self._saving is not None:
            self._saving.end()

    def _begin_saving(self) -> Saving:
        watch = self.joined.watch
        store = None if watch is None else self.joined.store
        saving = Saving(os.environ, store, f"save/{self.instance}", self.rank, self.size)
        if watch is not None and saving.hears:
            watch.saving = saving
        return saving

    @property
    def logger(self) -> Any:
        """Return a logger: rank 0 says everything from INFO on, the others only warnings, with their rank and host."""
        from .describe import logger

        return logger(self)

    def describe(self) -> str:
        """Return ranks, devices, versions and the variables in force, differences between ranks marked.

        Rank 0 prints it.
        """
        from .describe import describe

        text = describe(self, os.environ)
        self.print(text)
        return text

    def gather(self, value: Any) -> List[Any]:
        """Return every rank's value, in rank order, on every rank."""
        if self.alone:
            return [value]
        import torch.distributed as dist

        values: List[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def check(self) -> None:
        """Check the first collective: a rank's backend may load and still not reach the others."""
        notice = self.joined.backend.notice
        if notice and self.rank == 0:
            self.logger.warning(notice)
        if self.alone:
            return
        import torch
        import torch.distributed as dist

        ones = torch.ones(1, device=self.device)
        dist.all_reduce(ones)
        if int(ones.item()) != self.size:
            raise WireupError(
                f"the sum of ones over {self.size} ranks is {ones.item():g} on rank {self.rank} "
                f"({self.joined.seat.host}): the fabric errs",
                "start once more with NCCL_DEBUG=WARN, and read the backend's first error",
            )


@contextlib.contextmanager
def _telling(store: Store, key: str) -> Iterator[None]:
    """Tell those who wait under `key` how the body ended: '' for well, else the failure in words."""
    try:
        yield
    except BaseException as error:
        store.set(key, f"{type(error).__name__}: {error}")
        raise
    store.set(key, "")
