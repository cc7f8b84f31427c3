"""How much memory a rank may take: asked before anything is allocated, since a rank that takes too much is killed."""

from typing import Any, Optional

_LIMIT = "/sys/fs/cgroup/memory.max"
_USED = "/sys/fs/cgroup/memory.current"
_USABLE = 0.8
"""The backends have buffers of their own, and so has the check."""


def free_bytes(device: Any, ranks_on_host: int) -> int:
    """Return the bytes that this rank may allocate on `device`: on a host its share of what is free."""
    if device.type != "cpu":
        import torch

        return int(getattr(torch, device.type).mem_get_info(device)[0] * _USABLE)
    free = _available()
    limit, used_bytes = _number(_LIMIT), _number(_USED)
    if limit is not None and used_bytes is not None:
        free = min(free, limit - used_bytes)
    return max(0, int(free * _USABLE)) // ranks_on_host


def _available() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def _number(path: str) -> Optional[int]:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
