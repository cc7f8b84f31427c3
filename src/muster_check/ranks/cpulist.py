"""Lists of CPUs as the kernel writes them: "0-3,8"."""

from typing import Iterable, List, Optional, Set


def whole_number(text: str) -> Optional[int]:
    """Return the number that a variable holds; None: something else.

    str.isdigit also knows digits that int does not.
    """
    return int(text) if text.isdecimal() and len(text) < 20 else None


# No kernel is built for more; a longer list is not a list of CPUs, and making it would take all memory.
_MOST_CPUS = 1 << 20


def cpu_set(text: str) -> Set[int]:
    """Return the CPUs of such a list; a stride ("0-15:2/4") is of no file we read."""
    cpus: Set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        first, last = whole_number(low), whole_number(high if dash else low)
        if first is not None and last is not None and last < _MOST_CPUS:
            cpus.update(range(first, last + 1))
    return cpus


def cpu_list(cpus: Iterable[int]) -> str:
    """Return the shortest such list."""
    spans: List[List[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
