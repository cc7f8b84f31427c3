"""Why sbatch's trial does not take a job whose numbers are right: too many nodes are excluded, or down. Pure.

Slurm says "Requested node configuration is not available" for both. The numbers themselves are held against the cluster
before (`policy/limits.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from muster.slurm.cluster_answers import count_gpus
from muster.slurm.question import Question

_END = "\x1f"
_COLUMNS = ("%P", "%N", "%G", "%T")
# The states in which a node takes no job, without what sinfo appends ("down*": it does not answer).
_OUT = ("down", "drain", "drng", "fail", "maint", "unk", "reboot", "power", "inval", "future", "blocked", "plnd")


class NodeLine(NamedTuple):
    """One node as one of its partitions shows it."""

    partition: str
    name: str
    gpus: int
    is_out: bool
    """It takes no job at the moment."""

    is_default: bool


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks of its nodes; 0: nothing."""

    nodes: int
    spares: int = 0
    """How many of the nodes are spare."""

    gpus: int = 0
    """On each node."""

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
    partition, name, gres, state = cells
    is_out = state.endswith("*") or state.startswith(_OUT)
    return NodeLine(partition.removesuffix("*"), name, count_gpus(gres), is_out, partition.endswith("*"))


def find_misfit(request: Wanted, nodes: Iterable[NodeLine]) -> Misfit | None:
    """Return whether nodes are excluded or down; None where nothing of this is seen."""
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
    excluded_names = sorted({node.name for node in candidates} & set(request.excluded))
    if total - len(excluded_names) < request.nodes <= total:
        asked = f"{_nodes(request)} {'is' if request.nodes == 1 else 'are'} asked for"
        excluded = f"{_spell(excluded_names)} {'is' if len(excluded_names) == 1 else 'are'} excluded"
        left = total - len(excluded_names)
        yield Misfit(
            f"{asked}, but of the {total} of {queues} {excluded}",
            f"{_fewer(request, left) if left else 'exclude fewer (-x)'}; "
            "muster nodes lists what it excludes, and --clear forgets it",
        )
    would_fit = {node.name for node in candidates if node.gpus >= request.gpus} - set(excluded_names)
    # Nodes that are down are the reason only where too few of those that would do take jobs.
    is_short = request.named or len(would_fit - set(names_out)) < request.nodes
    if names_out and is_short and len(would_fit) >= request.nodes:
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
