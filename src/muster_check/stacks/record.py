"""Torch's own records of the collectives of each rank → who did not come to which one, or whose differs. Pure.

A record is what torch's flight recorder holds: as JSON from the rank itself, or as the pickle that torch wrote when a
collective timed out. The analyser of torch (torch.distributed.flight_recorder) needs torch where it runs, and the login
side has none.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from muster_check.stacks.fold import ranks_in_words
from muster_check.stacks.read import RankStack

# Collectives whose tensors have one size on all ranks; those of the others may well differ.
_EVEN = frozenset(
    {"all_reduce", "allreduce", "all_gather", "_all_gather_base", "all_gather_into_tensor", "_allgather_base"}
    | {"broadcast", "reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor", "all_to_all"}
)
_LONGEST_LIST = 4


class RecordedCall(msgspec.Struct, frozen=True):
    """One collective of one rank."""

    group: tuple[str, ...]
    number: int
    name: str
    sizes: str = ""

    @property
    def words(self) -> str:
        """Return the collective for a person: "all_reduce of 3×4"."""
        return f"{self.name} of {self.sizes}" if self.sizes else self.name

    def agrees(self, other: RecordedCall) -> bool:
        """Tell whether two ranks may call these as one collective."""
        return self.name == other.name and (self.name not in _EVEN or self.sizes == other.sizes)


def read_record(text: str) -> dict[tuple[str, ...], dict[int, RecordedCall]] | None:
    """Return the newest collectives of one rank by group and number; None where this is not a record."""
    form, _, content = text.partition(" ")
    try:
        documents = json.loads(content) if form == "json" else [_unpickled(base64.b64decode(content))]
    except (json.JSONDecodeError, pickle.UnpicklingError, binascii.Error, ValueError, EOFError, IndexError):
        return None
    calls: dict[tuple[str, ...], dict[int, RecordedCall]] = {}
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("entries"), list):
            for call in _calls(document["entries"]):
                calls.setdefault(call.group, {})[call.number] = call
    return calls


class _Plain(pickle.Unpickler):
    """Reads numbers, texts, lists and tables alone: a file in a temporary folder may run nothing."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name}")


def _unpickled(content: bytes) -> Any:
    return _Plain(io.BytesIO(content)).load()


def _calls(entries: Sequence[Any]) -> Iterator[RecordedCall]:
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("is_p2p"):
            continue
        name = str(entry.get("profiling_name") or "a collective")
        group = entry.get("process_group") or ()
        yield RecordedCall(
            tuple(map(str, group if isinstance(group, (list, tuple)) else (group,))),
            int(entry.get("collective_seq_id") or 0),
            name.partition(":")[2] or name,
            _sizes(entry.get("input_sizes") or ()),
        )


def _sizes(sizes: Sequence[Any]) -> str:
    shown_sizes = ["×".join(map(str, size)) or "1" for size in sizes if isinstance(size, (list, tuple))]
    return ", ".join(shown_sizes[:_LONGEST_LIST]) + (" …" if len(shown_sizes) > _LONGEST_LIST else "")


def what_records_say(stacks: Sequence[RankStack]) -> str | None:
    """Return one sentence on the first collective at which the ranks part; None where the records show none."""
    records = {stack.rank: calls for stack in stacks if (calls := read_record(stack.record)) is not None}
    groups = {group for calls in records.values() for group in calls}
    partings = (_parting(group, records) for group in sorted(groups))
    return next((sentence for sentence in partings if sentence is not None), None)


def _parting(
    group: tuple[str, ...], records: Mapping[int, Mapping[tuple[str, ...], Mapping[int, RecordedCall]]]
) -> str | None:
    """Return how the ranks part in one group."""
    whole = group[-1:] == ("default_pg",)
    calls = {rank: calls.get(group, {}) for rank, calls in records.items() if whole or group in calls}
    last = {rank: max(rank_calls, default=0) for rank, rank_calls in calls.items()}
    if len(calls) < 2:
        return None
    for number in sorted({number for rank_calls in calls.values() for number in rank_calls}):
        calls_here = {rank: rank_calls[number] for rank, rank_calls in calls.items() if number in rank_calls}
        late = sorted(rank for rank in calls if last[rank] < number)
        sentence = _unlike(number, calls_here) or (_late(number, late, calls_here) if late else None)
        if sentence is not None:
            return sentence
    return None


def _unlike(number: int, calls_here: Mapping[int, RecordedCall]) -> str | None:
    kinds: list[list[int]] = []
    for rank in sorted(calls_here):
        same_kind = next((kind for kind in kinds if calls_here[kind[0]].agrees(calls_here[rank])), None)
        (same_kind.append(rank) if same_kind is not None else kinds.append([rank]))
    if len(kinds) < 2:
        return None
    smallest_kind, *_ = sorted(kinds, key=lambda kind: (len(kind), [-rank for rank in kind]))
    other_kind = next(kind for kind in kinds if kind is not smallest_kind)
    calls = "calls" if len(smallest_kind) == 1 else "call"
    other_words = f"{ranks_in_words(other_kind)} {calls_here[other_kind[0]].words}"
    words = f"{ranks_in_words(smallest_kind)} {calls} {calls_here[smallest_kind[0]].words}"
    return f"torch's record: collective {number}: {words}, {other_words}"


def _late(number: int, late: Sequence[int], calls_here: Mapping[int, RecordedCall]) -> str:
    call = next(iter(calls_here.values()))
    has, there = ("has" if len(ranks) == 1 else "have" for ranks in (late, calls_here))
    return (
        f"torch's record: {ranks_in_words(late)} {has} not come to collective {number}, {call.words}, "
        f"which {ranks_in_words(sorted(calls_here))} {there} begun"
    )
