"""Rates of one rank's own parts: arithmetic, memory, the way to the device, storage. Each probe gives several values.

Written for GPUs too; on a GPU none of it has been run yet.
"""

import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

_TRIALS = 7
_MIB = 1 << 20


class NotHere(Exception):
    """A probe has nothing to measure on this rank; the words say why."""


class Probe(NamedTuple):
    """What is measured, its unit, whether more is better, and how."""

    unit: str
    more_is_better: bool
    measure: Callable[[Any, str], List[float]]


def _times(run: Callable[[], Any], finish: Callable[[], None], least_s: float = 0.02) -> List[float]:
    """Return the seconds of one run, in several trials of runs back to back; the first runs warm up."""
    for _ in range(3):
        run()
    finish()
    start_s = time.perf_counter()
    run()
    finish()
    count = max(1, min(200, int(least_s / max(time.perf_counter() - start_s, 1e-9))))
    seconds = []
    for _ in range(_TRIALS):
        start_s = time.perf_counter()
        for _ in range(count):
            run()
        finish()
        seconds.append((time.perf_counter() - start_s) / count)
    return seconds


def _finisher(device: Any) -> Callable[[], None]:
    import torch

    if device.type != "cpu":
        return lambda: getattr(torch, device.type).synchronize(device)
    return lambda: None


def gemm(device: Any, _: str) -> List[float]:
    """Measure 10^12 operations per second of a matrix product: bf16 on a GPU, fp32 on CPU cores."""
    return _product(device, "bfloat16", 8192) if device.type != "cpu" else _product(device, "float32", 768)


def _on_a_gpu(dtype: str, side: int, tf32: bool = False) -> Callable[[Any, str], List[float]]:
    """Make the probe of a matrix product of this type of number on a GPU."""

    def measure(device: Any, _: str) -> List[float]:
        if device.type == "cpu":
            raise NotHere("this rank has no GPU")
        import torch

        was_allowed = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        try:
            return _product(device, dtype, side)
        except RuntimeError as error:
            raise NotHere("{}: {}".format(dtype, str(error).partition("\n")[0])) from None
        finally:
            torch.backends.cuda.matmul.allow_tf32 = was_allowed

    return measure


def _product(device: Any, dtype: str, side: int) -> List[float]:
    """Measure 10^12 operations per second of a product of two square matrices.

    The operands are random: on zeros a GPU draws less power and runs faster than it ever will in training.
    """
    import torch

    kind = getattr(torch, dtype)
    left, right = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
    product = torch.empty(side, side, device=device, dtype=kind)
    seconds = _times(lambda: torch.mm(left, right, out=product), _finisher(device))
    return [2 * side**3 / elapsed_s / 1e12 for elapsed_s in seconds]


def memory_copy(device: Any, _: str) -> List[float]:
    """Measure GB/s of a copy within the device's memory, what is read and what is written counted."""
    import torch

    size = (1024 if device.type != "cpu" else 64) * _MIB
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return [2 * size / elapsed_s / 1e9 for elapsed_s in _times(lambda: target.copy_(source), _finisher(device))]


def _across(device: Any, to_device: bool, pinned: bool = True) -> List[float]:
    import torch

    if device.type == "cpu":
        raise NotHere("this rank has no GPU")
    size = 256 * _MIB
    host = torch.ones(size, dtype=torch.uint8)
    host = host.pin_memory() if pinned else host
    far_buffer = torch.empty(size, dtype=torch.uint8, device=device)
    target, source = (far_buffer, host) if to_device else (host, far_buffer)
    return [
        size / elapsed_s / 1e9
        for elapsed_s in _times(lambda: target.copy_(source, non_blocking=True), _finisher(device))
    ]


def host_to_device(device: Any, _: str) -> List[float]:
    """Measure GB/s from pinned memory of the host to the GPU."""
    return _across(device, to_device=True)


def device_to_host(device: Any, _: str) -> List[float]:
    """Measure GB/s from the GPU to pinned memory of the host."""
    return _across(device, to_device=False)


def host_to_device_pageable(device: Any, _: str) -> List[float]:
    """Measure GB/s from ordinary memory of the host to the GPU: what a loader without `pin_memory` gets."""
    return _across(device, to_device=True, pinned=False)


def device_to_host_pageable(device: Any, _: str) -> List[float]:
    """Measure GB/s from the GPU to ordinary memory of the host."""
    return _across(device, to_device=False, pinned=False)


def storage_write(_: Any, directory: str) -> List[float]:
    """Measure GB/s of a file written and flushed to the storage behind `directory`."""
    return [pair[0] for pair in _storage(directory)]


def storage_read(_: Any, directory: str) -> List[float]:
    """Measure GB/s of that file read again, dropped from this host's cache where the system does so on request."""
    return [pair[1] for pair in _storage(directory)]


def _storage(directory: str) -> List[Tuple[float, float]]:
    path = os.path.join(directory, "muster-bench-{}-{}".format(os.uname().nodename, os.getpid()))
    block = os.urandom(_MIB)
    rates = []
    size = 32 * _MIB
    try:
        for _ in range(3):
            start_s = time.perf_counter()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                for _ in range(size // _MIB):
                    os.write(descriptor, block)
                os.fsync(descriptor)
                wrote_s = time.perf_counter() - start_s
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.lseek(descriptor, 0, os.SEEK_SET)
                start_s = time.perf_counter()
                while os.read(descriptor, _MIB):
                    pass
                read_s = time.perf_counter() - start_s
            finally:
                os.close(descriptor)
            rates.append((size / wrote_s / 1e9, size / read_s / 1e9))
    except OSError as error:
        raise NotHere("{}: {}".format(directory, error.strerror)) from None
    finally:
        if os.path.exists(path):
            os.unlink(path)
    return rates


PROBES: Dict[str, Probe] = {
    "gemm": Probe("TFLOP/s", True, gemm),
    "gemm_fp16": Probe("TFLOP/s", True, _on_a_gpu("float16", 8192)),
    "gemm_tf32": Probe("TFLOP/s", True, _on_a_gpu("float32", 8192, tf32=True)),
    "gemm_fp32": Probe("TFLOP/s", True, _on_a_gpu("float32", 4096)),
    "gemm_fp64": Probe("TFLOP/s", True, _on_a_gpu("float64", 4096)),
    "memory_copy": Probe("GB/s", True, memory_copy),
    "host_to_device": Probe("GB/s", True, host_to_device),
    "device_to_host": Probe("GB/s", True, device_to_host),
    "host_to_device_pageable": Probe("GB/s", True, host_to_device_pageable),
    "device_to_host_pageable": Probe("GB/s", True, device_to_host_pageable),
    "storage_write": Probe("GB/s", True, storage_write),
    "storage_read": Probe("GB/s", True, storage_read),
}
