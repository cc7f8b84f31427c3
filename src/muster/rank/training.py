"""What a training script does by hand because it has many ranks: one function each, called through `World`."""

import math
import os
from itertools import chain
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Set, Union

from . import contract
from .describe import logger
from .errors import WireupError
from .together import Together

_TOLD: Set[str] = set()  # start methods that were spoken of: one sentence a process

_MOST_WORKERS = 8  # more than this per rank mostly fight over memory bandwidth


# --- the model ------------------------------------------------------------------------------------------------------


def ddp(world: Together, model: Any, batchnorm_group: Optional[int], stride: int, **options: Any) -> Any:
    """See `World.ddp`."""
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        if tensor.device != world.device:
            raise WireupError(
                f"the model's {name} lies on {tensor.device}, but the device of rank {world.rank} is {world.device}",
                "write model.to(world.device) before world.ddp(model)",
            )
    if batchnorm_group is not None and not world.alone:
        from .batchnorm import synchronised

        model = synchronised(model, world.group(batchnorm_group, stride), world.device)
    if world.alone or not any(parameter.requires_grad for parameter in model.parameters()):
        return model
    from torch.nn.parallel import DistributedDataParallel

    if batchnorm_group is not None:
        options = {**_unshared_buffers(DistributedDataParallel), **options}
    return DistributedDataParallel(model, device_ids=None if world.device.type == "cpu" else [world.device], **options)


def _unshared_buffers(wrapper: Any) -> Dict[str, bool]:
    """Return the option that keeps rank 0's running statistics from being copied over those of the other groups."""
    from inspect import signature

    names = ("forward_sync_buffers", "broadcast_buffers")  # torch 2.13 has both and warns of the second
    return {next(name for name in names if name in signature(wrapper).parameters): False}


def scale_learning_rate(world: Together, optimizer: Any, warmup_steps: int, rule: str) -> Any:
    """See `World.scale_learning_rate`. Call the scheduler's `step()` after each step of the optimizer."""
    from torch.optim.lr_scheduler import LambdaLR

    rules = {"linear": float(world.size), "sqrt": math.sqrt(world.size)}
    if rule not in rules:
        raise WireupError(f"there is no rule {rule!r} for the learning rate", "known: " + ", ".join(rules))
    factor = rules[rule]
    rates = ", ".join(f"{group['lr']:g} to {group['lr'] * factor:g}" for group in optimizer.param_groups)
    world.print(f"muster: learning rate {rates} within {warmup_steps} steps ({rule}, {world.size} ranks)")
    return LambdaLR(optimizer, lambda step: 1 + (factor - 1) * min(1.0, step / warmup_steps if warmup_steps else 1.0))


# --- the data -------------------------------------------------------------------------------------------------------


class RankSampler:
    """One rank's part of a data set's indices: what torch's DataLoader takes as a sampler.

    For training a new order is drawn for each epoch, the same on every rank, and its beginning is repeated at the
    end until all ranks have as many items. For evaluation each item comes exactly once in the whole world.
    """

    def __init__(self, world: Together, length: int, train: bool, seed: int) -> None:
        self.rank, self.size, self.length, self.train, self.seed = world.rank, world.size, length, train, seed
        self.epoch = 0
        self._print = world.print
        self._drawn: Optional[int] = None

    def set_epoch(self, epoch: int) -> None:
        """Draw another order: call it before each epoch, with the same number on every rank."""
        self.epoch = epoch

    def __len__(self) -> int:
        if self.train:
            return math.ceil(self.length / self.size)
        return len(range(self.rank, self.length, self.size))

    def __iter__(self) -> Iterator[int]:
        if not self.train:
            return iter(range(self.rank, self.length, self.size))
        if self._drawn == self.epoch:
            self._print("muster: this epoch has the order of the one before: call loader.sampler.set_epoch(epoch)")
        self._drawn = self.epoch
        return self._shuffled()

    def _shuffled(self) -> Iterator[int]:
        import torch

        order = torch.randperm(self.length, generator=torch.Generator().manual_seed(self.seed + self.epoch))
        for turn in range(len(self)):
            yield int(order[(turn * self.size + self.rank) % self.length])


def sampler(world: Together, dataset: Any, train: bool, seed: int) -> RankSampler:
    """See `World.sampler`."""
    return RankSampler(world, len(dataset), train, seed)


def loader(world: Together, dataset: Any, batch_size: int, train: bool, **options: Any) -> Any:
    """See `World.loader`. What is given in `options` goes to the DataLoader and wins."""
    from torch.utils.data import DataLoader

    number = options.pop("num_workers", None)
    settings: Dict[str, Any] = {
        "batch_size": batch_size,
        "sampler": sampler(world, dataset, train, options.pop("seed", 0)),
        "num_workers": workers(world.local_size) if number is None else number,
        "pin_memory": world.device.type != "cpu",
    }
    if settings["num_workers"]:
        method = start_method(os.environ)
        settings["multiprocessing_context"] = method
        settings["persistent_workers"] = True
        if method and method not in _TOLD and "multiprocessing_context" not in options:
            _TOLD.add(method)
            logger(world).info(
                "data loading workers start by %s, as this fabric's card must not meet a forked one: keep what starts "
                "them under if __name__ == '__main__'",
                method,
            )
    return DataLoader(dataset, **{**settings, **options})


def workers(local_size: int) -> int:
    """Return how many data loading processes suit this rank: its own cores but one."""
    cpu_count = len(os.sched_getaffinity(0))
    if cpu_count == os.cpu_count():  # not bound: the ranks of this host share all cores
        cpu_count //= local_size
    return max(0, min(cpu_count - 1, _MOST_WORKERS))


def start_method(environment: Any, devices: str = "/dev") -> Optional[str]:
    """Return how data loading processes must be started here; None: as Python does.

    A process that has opened Slingshot's cxi device must not be forked: the child crashes in libfabric
    (pytorch #119845).
    """
    method = environment.get(contract.START_METHOD)
    if method:
        return str(method)
    over_cxi = environment.get("FI_PROVIDER") == "cxi" or Path(devices, "cxi0").exists()
    return "forkserver" if over_cxi else None


# --- results --------------------------------------------------------------------------------------------------------


def mean(world: Together, value: Any, weight: float) -> float:
    """See `World.mean`."""
    number = float(value)
    if world.alone:
        return number
    import torch
    import torch.distributed as dist

    sums = torch.tensor([number * weight, weight], dtype=torch.float64, device=world.device)
    dist.all_reduce(sums)
    total, weights = sums.tolist()
    return float(total / weights) if weights else math.nan


def save(world: Together, value: Any, path: Union[str, "os.PathLike[str]"]) -> None:
    """See `World.save`."""
    with world.rank0_first():
        if world.rank == 0:
            import torch

            part = Path(f"{os.fspath(path)}.part")
            torch.save(value, part)
            part.replace(path)
