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
from typing import Any, Iterator, Optional, Union

from .errors import WireupError
from .join import Joined, abort, first_line, join, leave
from .methods import method_named
from .saving import Saving, time_left
from .together import Together


@contextlib.contextmanager
def world(
    method: str = "auto",
    backend: Optional[str] = None,
    timeout: Union[float, timedelta, None] = None,
    instances: Optional[int] = None,
) -> "Iterator[World]":
    """Join the ranks that were started together; on the way out leave them, also by an exception.

    method: where this rank's number comes from. "auto" takes what the launcher set (or `--wireup`);
        the others are in `methods.py`. backend: "nccl" or "gloo"; by default NCCL on GPUs, gloo elsewhere.
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


class World(Together):
    """The ranks together, as one of them sees them. Made by `world()`.

    rank, size: this rank and how many there are · local_rank, local_size: the same on this host ·
    node_rank, nodes: this host's number and how many there are · hosts: their names, rank 0's first ·
    device: where this rank's tensors belong · backend, method · instance, instances: of a split.
    """

    def __init__(self, joined: Joined) -> None:
        super().__init__(joined)
        self._saving: Optional[Saving] = None

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
                f"({self.joined.seat.host}): the network returns wrong values",
                "start once more with NCCL_DEBUG=WARN, and read the backend's first error",
            )
