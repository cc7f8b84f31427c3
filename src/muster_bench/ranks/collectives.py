"""One collective at one size: its buffers, how it is called, what must come out. Nothing is emulated.

Sizes are counted as nccl-tests counts them: what all ranks hold together for all_gather and reduce_scatter, what one
rank holds for the rest.
"""

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .values import Wrong, addend_row, fill, row, sum_row, wrong_elements


class Members(NamedTuple):
    """The ranks that take part, as one of them sees them."""

    group: Any
    """torch's process group; None: everybody."""

    ranks: Tuple[int, ...]
    """Their numbers in the world, in the group's order."""

    place: int
    """This rank's number in the group."""

    @property
    def size(self) -> int:
        return len(self.ranks)


class ReadyCollective(NamedTuple):
    """A collective made ready: refill before it, run it, and ask for what is wrong."""

    run: Callable[[], None]
    refill: Callable[[], None]
    wrong: Callable[[], Wrong]
    output: Any
    repeats: bool
    """Running it again leaves the same result: what the timed runs left can be checked too."""


class CollectiveKind(NamedTuple):
    """What is known of a collective before a buffer is made."""

    places: Tuple[str, ...]
    """Whether torch has it in place, out of place, or both."""

    parts: bool
    """The size is cut into one part a rank."""

    needs: Callable[[int, int, bool], int]
    """Bytes of this rank's buffers, by (size, ranks, in place)."""

    make: Callable[["Members", int, Any, Any, bool], ReadyCollective]


def bytes_needed(collective: str, size: int, ranks: int, in_place: bool) -> int:
    """Return what the buffers of a rank take; the check's chunks come on top."""
    return COLLECTIVES[collective].needs(size, ranks, in_place)


def round_count(collective: str, size: int, ranks: int, itemsize: int) -> int:
    """Return the elements of a buffer of about `size` bytes: at least one, or one a rank where it is cut in parts."""
    step = ranks if COLLECTIVES[collective].parts else 1
    return max(1, size // (itemsize * step)) * step


def make_case(
    collective: str, members: Members, count: int, dtype: Any, device: Any, in_place: bool
) -> ReadyCollective:
    """Return buffers of `count` elements, filled."""
    case = COLLECTIVES[collective].make(members, count, dtype, device, in_place)
    case.refill()
    return case


def timed(run: Callable[[], None], start: Callable[[], None], finish: Callable[[], None], iterations: int) -> float:
    """Return the seconds for each of `iterations` runs back to back, from the common start to this rank's end."""
    start()
    start_s = time.perf_counter()
    for _ in range(iterations):
        run()
    finish()
    return (time.perf_counter() - start_s) / iterations


# --- the six --------------------------------------------------------------------------------------------------------


def _all_reduce(members: Members, count: int, dtype: Any, device: Any, in_place: bool) -> ReadyCollective:
    import torch
    import torch.distributed as dist

    del in_place
    buffer = torch.empty(count, dtype=dtype, device=device)
    addends, result = addend_row(members.place, members.size, dtype), sum_row(members.size, dtype)
    return ReadyCollective(
        run=lambda: dist.all_reduce(buffer, group=members.group),
        refill=lambda: fill(buffer, addends),
        wrong=lambda: wrong_elements(buffer, result),
        output=buffer,
        repeats=False,
    )


def _all_gather(members: Members, count: int, dtype: Any, device: Any, in_place: bool) -> ReadyCollective:
    import torch

    output = torch.empty(count, dtype=dtype, device=device)
    blocks = output.chunk(members.size)
    part = blocks[members.place] if in_place else torch.empty(count // members.size, dtype=dtype, device=device)
    rows = [row(rank, dtype) for rank in range(members.size)]
    gather = _function("all_gather_single", "all_gather_into_tensor", "_all_gather_base")

    def refill() -> None:
        output.zero_()
        fill(part, rows[members.place])

    return ReadyCollective(
        run=lambda: gather(output, part, group=members.group),
        refill=refill,
        wrong=lambda: _wrong_blocks(blocks, rows),
        output=output,
        repeats=True,
    )


def _reduce_scatter(members: Members, count: int, dtype: Any, device: Any, in_place: bool) -> ReadyCollective:
    import torch

    whole = torch.empty(count, dtype=dtype, device=device)
    blocks = whole.chunk(members.size)
    output = blocks[members.place] if in_place else torch.empty(count // members.size, dtype=dtype, device=device)
    addends, result = addend_row(members.place, members.size, dtype), sum_row(members.size, dtype)
    scatter = _function("reduce_scatter_single", "reduce_scatter_tensor", "_reduce_scatter_base")

    def refill() -> None:
        if not in_place:
            output.zero_()
        for block in blocks:
            fill(block, addends)

    return ReadyCollective(
        run=lambda: scatter(output, whole, group=members.group),
        refill=refill,
        wrong=lambda: wrong_elements(output, result),
        output=output,
        repeats=not in_place,
    )


def _broadcast(members: Members, count: int, dtype: Any, device: Any, in_place: bool) -> ReadyCollective:
    import torch
    import torch.distributed as dist

    del in_place
    buffer = torch.empty(count, dtype=dtype, device=device)
    values = row(0, dtype)

    def refill() -> None:
        if members.place == 0:
            fill(buffer, values)
        else:
            buffer.zero_()

    return ReadyCollective(
        run=lambda: dist.broadcast(buffer, members.ranks[0], group=members.group),
        refill=refill,
        wrong=lambda: wrong_elements(buffer, values),
        output=buffer,
        repeats=True,
    )


def _all_to_all(members: Members, count: int, dtype: Any, device: Any, in_place: bool) -> ReadyCollective:
    import torch
    import torch.distributed as dist

    del in_place
    output, source = (torch.empty(count, dtype=dtype, device=device) for _ in range(2))
    size, place = members.size, members.place
    blocks, source_blocks = output.chunk(size), source.chunk(size)
    rows = [row(sender * size + place, dtype) for sender in range(size)]

    def refill() -> None:
        output.zero_()
        for receiver, block in enumerate(source_blocks):
            fill(block, row(place * size + receiver, dtype))

    return ReadyCollective(
        run=lambda: dist.all_to_all_single(output, source, group=members.group),
        refill=refill,
        wrong=lambda: _wrong_blocks(blocks, rows),
        output=output,
        repeats=True,
    )


def _send_recv(members: Members, count: int, dtype: Any, device: Any, in_place: bool) -> ReadyCollective:
    """Return the case in which every rank sends to the next and receives from the one before, at once."""
    import torch

    del in_place
    output, source = (torch.empty(count, dtype=dtype, device=device) for _ in range(2))
    next_rank = members.ranks[(members.place + 1) % members.size]
    before_place = (members.place - 1) % members.size
    values = row(before_place, dtype)

    def refill() -> None:
        output.zero_()
        fill(source, row(members.place, dtype))

    def run() -> None:
        exchange(source, next_rank, output, members.ranks[before_place], members.group)

    return ReadyCollective(run, refill, lambda: wrong_elements(output, values), output, True)


def exchange(source: Any, to: int, output: Any, sender: int, group: Any = None) -> None:
    """Send and receive at once; back when both are done."""
    import torch.distributed as dist

    operations = [dist.P2POp(dist.isend, source, to, group), dist.P2POp(dist.irecv, output, sender, group)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def _function(*names: str) -> Any:
    """Return the first of the names that this torch has: it has renamed them twice."""
    import torch.distributed as dist

    return next(getattr(dist, name) for name in names if hasattr(dist, name))


def _wrong_blocks(blocks: Sequence[Any], rows: Sequence[Any]) -> Wrong:
    wrong_counts: List[Wrong] = [wrong_elements(block, values) for block, values in zip(blocks, rows)]
    length = blocks[0].numel()
    first: Optional[int] = None
    for number, wrong in enumerate(wrong_counts):
        if wrong.first is not None:
            first = number * length + wrong.first
            break
    return Wrong(sum(wrong.number for wrong in wrong_counts), first)


def _one(size: int, ranks: int, in_place: bool) -> int:
    del ranks, in_place
    return size


def _two(size: int, ranks: int, in_place: bool) -> int:
    del ranks, in_place
    return 2 * size


def _one_and_part(size: int, ranks: int, in_place: bool) -> int:
    return size if in_place else size + size // ranks


COLLECTIVES: Dict[str, CollectiveKind] = {
    "all_reduce": CollectiveKind(("in",), False, _one, _all_reduce),
    "all_gather": CollectiveKind(("out", "in"), True, _one_and_part, _all_gather),
    "reduce_scatter": CollectiveKind(("out", "in"), True, _one_and_part, _reduce_scatter),
    "broadcast": CollectiveKind(("in",), False, _one, _broadcast),
    "all_to_all": CollectiveKind(("out",), True, _two, _all_to_all),
    "send_recv": CollectiveKind(("out",), False, _two, _send_recv),
}
