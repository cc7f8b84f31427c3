"""What NCCL's own watch (RAS, since NCCL 2.24) says of its ranks: its text → sentences. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from muster_check.stacks.fold import ranks_in_words
from muster_check.stacks.read import RankStack

# Each block begins with the communicator's number and hash, or with the word alone.
_HEAD = re.compile(r"^(#\S+ \(\w+\) )?(?P<kind>MISMATCH|INCOMPLETE|DEAD|TIMEOUT|NOCOMM)$|^(Errors|Warnings|=+)$")
_COUNTS = re.compile(r"^Communicator ranks have different (?P<name>\w+) operation counts")
_MANY = re.compile(r"^(?P<many>\d+) ranks have (launched up to operation (?P<number>\d+)|not launched any operations)")
_ONE = re.compile(r"^Rank (?P<rank>\d+) has (launched up to operation (?P<number>\d+)|not launched any operations) -- ")
_RANK = re.compile(r"^Rank (?P<rank>\d+) ")
_NODE = re.compile(r"\b(managed by process|Process) (?P<pid>\d+) on node (?P<node>[^\s,]+)")
_DEAD = re.compile(r"job process(es)? (is|are) considered dead")
_SILENT = re.compile(r"^Missing communicator data from \d+ ")


def what_nccl_says(stacks: Sequence[RankStack]) -> str | None:
    """Return the sentences of the first node whose NCCL answered; None where none did, or all is well."""
    text = next((stack.ras for stack in stacks if stack.ras), "")
    return "; ".join(read_ras(text)) or None


def read_ras(text: str) -> Iterator[str]:
    """Yield a sentence for the ranks that are dead, that do not answer, or that are not at the others' operation."""
    block: list[str] = []
    for line in (*text.splitlines(), "Errors"):
        if _HEAD.match(line):
            yield from _of_block(block)
            block = []
        elif line.strip():
            block.append(line.strip())


def _of_block(lines: Sequence[str]) -> Iterator[str]:
    operation = next((match["name"] for line in lines if (match := _COUNTS.match(line))), None)
    if operation is not None:
        yield from _counts(lines, "collective" if operation == "collective" else operation)
    elif any(_DEAD.search(line) for line in lines):
        yield f"NCCL says: {_who(lines)} {'is' if _one(lines) else 'are'} dead"
    elif any(map(_SILENT.match, lines)):
        yield f"NCCL says: {_who(lines)} {'does' if _one(lines) else 'do'} not answer"


def _counts(lines: Sequence[str], name: str) -> Iterator[str]:
    """Yield who is at which operation: NCCL lists the ranks of a smaller part alone."""
    parts: dict[int, list[str]] = {}
    sizes: dict[int, int] = {}
    number = 0
    for line in lines:
        if match := (_MANY.match(line) or _ONE.match(line)):
            number = int(match["number"] or 0)
            sizes[number] = sizes.get(number, 0) + int(match.groupdict().get("many") or 1)
        if _RANK.match(line):
            parts.setdefault(number, []).append(line)
    behind = min(sizes, default=0)
    listed = behind if behind in parts else max(parts, default=behind)
    other_count = max((count for count in sizes if count != listed), key=lambda count: sizes[count], default=listed)
    subject = _who(parts[listed]) if listed in parts else f"{sizes.get(listed, 0)} ranks"
    verb = "is" if sizes.get(listed) == 1 else "are"
    yield f"NCCL says: {subject} {verb} at {name} {listed}, {sizes.get(other_count, 0)} others at {other_count}"


def _places(lines: Sequence[str]) -> list[re.Match[str]]:
    return [match for line in lines if (match := _NODE.search(line))]


def _one(lines: Sequence[str]) -> bool:
    return len(_places(lines)) == 1


def _who(lines: Sequence[str]) -> str:
    """Return the ranks and their nodes; the processes, where NCCL names no ranks."""
    places = _places(lines)
    nodes = ", ".join(sorted({match["node"] for match in places}))
    ranks = [int(match["rank"]) for line in lines if (match := _RANK.match(line))]
    if ranks:
        return f"{ranks_in_words(ranks)} on {nodes}"
    pids = ", ".join(match["pid"] for match in places)
    return f"process{'es' if len(places) > 1 else ''} {pids} on {nodes}"
