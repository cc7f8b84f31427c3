"""Lists of CPUs as the kernel writes them: "0-3,8"."""

from typing import Iterable, List, Set

__all__ = ["cpu_list", "cpu_set"]


def cpu_set(text: str) -> Set[int]:
    """The CPUs of such a list; a stride ("0-15:2/4") is of no file we read."""
    found: Set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if low.isdigit() and (not dash or high.isdigit()):
            found.update(range(int(low), int(high if dash else low) + 1))
    return found


def cpu_list(cpus: Iterable[int]) -> str:
    """The shortest such list."""
    spans: List[List[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
