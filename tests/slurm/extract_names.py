"""Print every reason code and job state that this machine's libslurm knows, one a line, asking the library itself.

Run in a lab of each version: muster lab exec -- python tests/slurm/extract_names.py LIBSLURMFULL
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator

# The reason is called job_reason_string up to 22.05 and job_state_reason_string after it.
_REASON = ("job_state_reason_string", "job_reason_string")
_STATE = ("job_state_string",)
# Reasons are numbers; base states are numbers too, and each flag of a state is a bit above them.
_MOST_REASONS = 1000
_STATES = (*range(64), *(1 << bit for bit in range(8, 32)))


def names_in(library: str) -> Iterator[str]:
    """Lines "reason NAME" and "state NAME", in the library's order, without repetition."""
    lib = ctypes.CDLL(library)
    yield from _unique("reason", _function(lib, _REASON), range(_MOST_REASONS))
    yield from _unique("state", _function(lib, _STATE), _STATES)


def _function(lib: ctypes.CDLL, spellings: tuple[str, ...]) -> Callable[[int], bytes]:
    for spelling in (*spellings, *(f"slurm_{each}" for each in spellings)):
        if hasattr(lib, spelling):
            function = lib[spelling]
            function.restype = ctypes.c_char_p
            function.argtypes = [ctypes.c_uint32]
            return function
    raise SystemExit(f"{lib} has none of {spellings}")


def _unique(kind: str, function: Callable[[int], bytes], numbers: range | tuple[int, ...]) -> Iterator[str]:
    seen = set()
    for number in numbers:
        name = function(number).decode()
        # A number that the library does not know comes back as itself, or as "?".
        if name not in seen and not name.isdigit() and name not in {"?", "(null)"}:
            seen.add(name)
            yield f"{kind} {name}"


if __name__ == "__main__":
    print("\n".join(names_in(sys.argv[1])))
