"""A torch with a GPU that is not there, for the programs of the proofs: as much as they use, and a fault on request.

It computes on lists. `fault` names what it does wrong; without one it does everything right.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any


class FakeTensor:
    """A list of numbers that knows the few operations of the programs."""

    def __init__(self, values: list[float], device: str = "cpu") -> None:
        self.values = values
        self.device = device

    def __mul__(self, factor: float) -> FakeTensor:
        return FakeTensor([value * factor for value in self.values], self.device)

    def __getitem__(self, index: int) -> FakeTensor:
        return FakeTensor([self.values[index]], self.device)

    def sum(self) -> FakeTensor:
        return FakeTensor([sum(self.values)], self.device)

    def item(self) -> float:
        return self.values[0]

    def tolist(self) -> list[float]:
        return list(self.values)

    def clone(self) -> FakeTensor:
        return FakeTensor(list(self.values), self.device)

    def cpu(self) -> FakeTensor:
        return FakeTensor(list(self.values))


class FakeGpu:
    """The state of one process with a GPU."""

    def __init__(self, fault: str, rank: int, size: int) -> None:
        self.fault, self.rank, self.size = fault, rank, size
        self.backend = ""

    def modules(self) -> dict[str, ModuleType]:
        """Return what has to stand in sys.modules."""
        torch, cuda, distributed = (ModuleType(name) for name in ("torch", "torch.cuda", "torch.distributed"))
        vars(torch).update(
            cuda=cuda,
            distributed=distributed,
            __version__="2.11.0+cu130",
            version=SimpleNamespace(cuda="13.0"),
            float32="float32",
            uint8="uint8",
            ones=lambda count, **_: FakeTensor([1.0] * int(count)),
            arange=lambda count, **_: FakeTensor([float(value) for value in range(count)]),
            zeros_like=lambda other: FakeTensor([0.0] * len(other.values)),
            empty=self._empty,
        )
        vars(cuda).update(
            is_initialized=lambda: self.fault == "started early",
            current_device=lambda: 1 if self.fault == "wrong device" else 0,
            set_device=lambda _: None,
            device_count=lambda: 2 if self.fault == "wrong device" else 1,
            get_device_name=lambda _: "NVIDIA H100 80GB HBM3",
            synchronize=self._synchronize,
            _sleep=lambda _: None,
            jiterator=SimpleNamespace(_create_jit_fn=lambda _: lambda value: value),
        )
        vars(distributed).update(
            init_process_group=self._init,
            destroy_process_group=lambda: None,
            get_backend=lambda: "gloo" if self.fault == "wrong backend" else self.backend,
            get_rank=lambda: self.rank,
            barrier=lambda: None,
            all_reduce=self._all_reduce,
            broadcast=lambda value, _: self._keep(value),
            reduce=lambda value, _: self._keep(value),
            all_gather_into_tensor=self._copy,
            reduce_scatter_tensor=self._copy,
            all_to_all_single=self._copy,
        )
        return {module.__name__: module for module in (torch, cuda, distributed)}

    def _init(self, backend: str, **_: Any) -> None:
        self.backend = backend
        if backend == "nccl" and self.size > 1 and self.fault != "two on one":
            message = "NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"
            raise RuntimeError(message)

    def _all_reduce(self, value: FakeTensor, **_: Any) -> None:
        if self.size > 1:
            value.values = [float(sum(range(1, self.size + 1)))] * len(value.values)
        self._keep(value)

    def _keep(self, value: FakeTensor) -> None:
        if self.fault == "a flipped bit":
            value.values[-1] += 1.0

    def _copy(self, value: FakeTensor, sent: FakeTensor) -> None:
        value.values = list(sent.values)
        self._keep(value)

    def _synchronize(self) -> None:
        if self.fault == "illegal address":
            message = "CUDA error: an illegal memory access was encountered"
            raise RuntimeError(message)

    def _empty(self, _count: int, **_: Any) -> FakeTensor:
        if self.fault == "endless memory":
            sys.exit(0)
        message = "CUDA out of memory. Tried to allocate 8.00 GiB"
        raise RuntimeError(message)
