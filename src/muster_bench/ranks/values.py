"""What the elements of each buffer are, so that one wrong bit anywhere is seen.

Element i of a buffer is entry i modulo PERIOD of a row of pseudo-random whole numbers, one row for each sender (and,
where it matters, receiver). PERIOD is prime: a block that arrives shifted by any power of two differs. The numbers are
so small that their sum over all ranks is exact in the type, so right and wrong are told apart bit by bit.
"""

from typing import Any, NamedTuple, Optional

PERIOD = 1021
_CHUNK = PERIOD * 4096

# Whole numbers up to here, and all between, are exact.
_EXACT = {
    "float16": 1 << 11,
    "bfloat16": 1 << 8,
    "float32": 1 << 24,
    "float64": 1 << 31,
    "int8": 127,
    "int32": (1 << 31) - 1,
    "int64": 1 << 31,
}


class Wrong(NamedTuple):
    """How many elements are not what they should be, and which is the first."""

    number: int
    first: Optional[int]


def _numbers(key: int, high: int) -> Any:
    """Return PERIOD whole numbers from 0 to `high`, the same on every machine."""
    import torch

    index = torch.arange(PERIOD, dtype=torch.int64)
    mixed = (index * 2654435761 + (key + 1) * 40503 * 65537) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 739982445) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 12)) * 695872825) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 15)) % (high + 1)


def row(key: int, dtype: Any) -> Any:
    """Return the row of one sender, for what is only moved."""
    return _numbers(key, _EXACT[_name(dtype)]).to(dtype)


def _addend(rank: int, size: int, dtype: Any) -> Any:
    """Return what a rank adds to a sum over `size` ranks, as int64.

    Where even 0 and 1 could not be added exactly, each entry has one rank that adds to it; every rank has its share.
    """
    import torch

    high = _EXACT[_name(dtype)] // size
    if high >= 1:
        return _numbers(rank, high)
    owner = torch.arange(PERIOD, dtype=torch.int64) * 7919 % size
    return torch.where(owner == rank, _numbers(-1, _EXACT[_name(dtype)]), torch.zeros(PERIOD, dtype=torch.int64))


def addend_row(rank: int, size: int, dtype: Any) -> Any:
    """Return what a rank puts into a sum."""
    return _addend(rank, size, dtype).to(dtype)


def sum_row(size: int, dtype: Any) -> Any:
    """Return what comes out of a sum over `size` ranks."""
    return sum(_addend(rank, size, dtype) for rank in range(size)).to(dtype)


def fill(buffer: Any, values: Any) -> None:
    """Write the row over the whole of a flat buffer, again and again."""
    values = values.to(buffer.device)
    repeated = values.repeat(min(4096, -(-buffer.numel() // PERIOD)))
    for start in range(0, buffer.numel(), _CHUNK):
        part = buffer[start : start + _CHUNK]
        part.copy_(repeated[: part.numel()])


def wrong_elements(buffer: Any, values: Any) -> Wrong:
    """Return which elements of a flat buffer differ in any bit from the row."""
    bits = _bits(buffer)
    expected = _bits(values.to(buffer.device)).repeat(min(4096, -(-buffer.numel() // PERIOD)))
    count, first = 0, None
    for start in range(0, bits.numel(), _CHUNK):
        part = bits[start : start + _CHUNK]
        differs = part != expected[: part.numel()]
        wrong_count = int(differs.sum().item())
        if wrong_count and first is None:
            first = start + int(differs.nonzero()[0].item())
        count += wrong_count
    return Wrong(count, first)


def _bits(buffer: Any) -> Any:
    """Return the same memory as whole numbers: −0 is not 0, and NaN equals itself."""
    import torch

    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return buffer.view(whole[buffer.element_size()])


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]
