"""How long a test waits: in units of this machine's own srun, not in seconds of the machine that it was written on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

__all__ = ["measure_srun", "patient"]

# What `muster lab exec -- srun -N1 true` takes on a quiet machine of two cores.
_QUIET_SRUN_S = 0.4

_slowest_s = _QUIET_SRUN_S


def measure_srun(srun: Callable[[], object]) -> None:
    """Remember how long an srun takes here; the slowest counts."""
    global _slowest_s  # noqa: PLW0603  # one machine, one patience
    began = time.monotonic()
    srun()
    _slowest_s = max(_slowest_s, time.monotonic() - began)


def patient(seconds: float) -> float:
    """As long as `seconds` are on a quiet machine: longer where an srun is slow, or where others compute."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(10.0, max(1.0, _slowest_s / _QUIET_SRUN_S, busy))
