"""Which number of a request no node of its partition has. sinfo's lines in, a sentence out; pure.

Slurm says "Requested node configuration is not available" for too many nodes, CPUs, GPUs, too much memory, and for
nodes that are down alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from muster.slurm.question import Question
from muster.units import format_memory, whole_number

_END = "\x1f"
_COLUMNS = ("%P", "%N", "%c", "%m", "%G", "%T")
# The states in which a node takes no job, without what sinfo appends ("down*": it does not answer).
_OUT = ("down", "drain", "drng", "fail", "maint", "unk", "reboot", "power", "inval", "future", "blocked", "plnd")


class NodeLine(msgspec.Struct, frozen=True):
    """One node as one of its partitions shows it."""

    partition: str
    is_default: bool
    name: str
    cpus: int
    memory_mib: int
    gpus: int
    state: str

    @property
    def is_out(self) -> bool:
        """Return whether it takes no job at the moment."""
        return self.state.endswith("*") or self.state.startswith(_OUT)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks of its nodes; 0: nothing."""

    nodes: int
    spares: int = 0
    """How many of the nodes are spare."""

    cpus: int = 0
    """On each node."""

    gpus: int = 0
    memory_mib: int = 0
    partitions: tuple[str, ...] = ()
    """None: the default one."""

    named: tuple[str, ...] = ()
    """The nodes of --nodelist."""

    excluded: tuple[str, ...] = ()
    """The nodes of --exclude, also those that `muster nodes` lists."""


class Misfit(msgspec.Struct, frozen=True):
    """What does not fit, and what would."""

    sentence: str
    hint: str
    may_pass: bool = False
    """The nodes exist, and take no job at the moment: Slurm queues the job until they do."""


def parse_nodes(stdout: str) -> tuple[NodeLine, ...]:
    """Return the nodes in sinfo's answer; other lines are ignored."""
    cells = (line.split(_END) for line in stdout.splitlines())
    return tuple(_node(line) for line in cells if len(line) == len(_COLUMNS))


def _node(cells: Sequence[str]) -> NodeLine:
    partition, name, cpus, memory, gres, state = cells
    return NodeLine(
        partition.removesuffix("*"), partition.endswith("*"), name, _least(cpus), _least(memory), _gpus(gres), state
    )


def _least(text: str) -> int:
    return whole_number(text.rstrip("+")) or 0


def _gpus(gres: str) -> int:
    """Return the GPUs of "gpu:a100:4(S:0-1),gpu:h100:2"."""
    items = re.sub(r"\([^)]*\)", "", gres).split(",")
    return sum(whole_number(item.rpartition(":")[2]) or 0 for item in items if item.startswith("gpu:"))


def find_misfit(request: Wanted, nodes: Iterable[NodeLine]) -> Misfit | None:
    """Return the first number that no node has, or the nodes that are down; None where nothing of this is seen."""
    candidates = [
        node for node in nodes if (node.partition in request.partitions if request.partitions else node.is_default)
    ]
    if not candidates:
        return None
    queues = " or ".join(dict.fromkeys(node.partition for node in candidates))
    return next(_misfits(request, candidates, queues), None)


def _misfits(request: Wanted, candidates: Sequence[NodeLine], queues: str) -> Iterator[Misfit]:
    names_out = sorted(
        {node.name for node in candidates if node.is_out and (not request.named or node.name in request.named)}
    )
    total = len({node.name for node in candidates})
    if request.nodes > total:
        yield Misfit(f"{_nodes(request)} are asked for, but {queues} has {total}", _fewer(request, total))
    excluded_names = sorted({node.name for node in candidates} & set(request.excluded))
    if total - len(excluded_names) < request.nodes <= total:
        yield Misfit(
            f"{_nodes(request)} are asked for, but of the {total} of {queues} {_spell(excluded_names)} "
            f"{'is' if len(excluded_names) == 1 else 'are'} excluded",
            f"{_fewer(request, total - len(excluded_names))}; "
            "muster nodes lists what it excludes, and --clear forgets it",
        )
    for amount, largest, spell, flag in (
        (request.gpus, max(node.gpus for node in candidates), "{} GPUs".format, "-g"),
        (request.cpus, max(node.cpus for node in candidates), "{} CPUs".format, "-c, or fewer ranks on a node"),
        (request.memory_mib, max(node.memory_mib for node in candidates), format_memory, "--mem"),
    ):
        if amount > largest:
            yield Misfit(
                f"{spell(amount)} on each node are asked for, but no node of {queues} has more than {spell(largest)}",
                f"a smaller {flag}; muster queues shows the partitions and their nodes",
            )
    fitting = {
        node.name
        for node in candidates
        if node.gpus >= request.gpus and node.cpus >= request.cpus and node.memory_mib >= request.memory_mib
    }
    if len(fitting) < request.nodes:
        yield Misfit(
            f"{_nodes(request)} are asked for, but only {len(fitting)} of the {total} of {queues} have all "
            "that is asked of each",
            f"{_fewer(request, len(fitting))}, or less of each node",
        )
    # Where enough nodes take jobs, those that do not are not the reason.
    if names_out and (request.named or len(fitting - {*names_out, *excluded_names}) < request.nodes):
        yield Misfit(
            f"{_spell(names_out)} of {queues} {'is' if len(names_out) == 1 else 'are'} down or drained: "
            f"{total - len(names_out)} of {total} nodes take jobs",
            "sinfo -R says why; fewer nodes, or wait until they are back",
            may_pass=True,
        )


def _nodes(request: Wanted) -> str:
    return f"{request.nodes} node{'s' * (request.nodes != 1)}{f' ({request.spares} spare)' if request.spares else ''}"


def _fewer(request: Wanted, nodes: int) -> str:
    """Return so many nodes as options."""
    if not request.spares:
        return f"-N {nodes} or fewer"
    return f"-N {nodes - request.spares} or fewer" if nodes > request.spares else "fewer --spares"


def _spell(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


# Every node of every partition, one a line.
NODES = Question(("sinfo", "--all", "--Node", "--noheader", f"--format={_END.join(_COLUMNS)}"), parse_nodes)
