"""The nodes that the next job does not get: what earlier jobs tell of their nodes, held against the known errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from muster.act.bad_nodes import BadNode, MemoryUnreadable, bad_nodes
from muster.follow.node_faults import NodeStates, look_at_nodes
from muster.job.request import Request
from muster.model.plan import Note
from muster.rank.hostlist import expand

_SHOWN = 3


Fits = Callable[[Sequence[str]], bool]
"""Tells whether the cluster has enough nodes for the job without these."""


def nodes_to_avoid(state: Path, cluster: str, states: NodeStates) -> list[BadNode]:
    """Return the nodes that failed under this user's jobs on a cluster."""
    return bad_nodes(look_at_nodes(state, cluster, _cause_of_node, states))


def leave_out(
    request: Request, state: Path, cluster: str, *, states: NodeStates, fits: Fits
) -> tuple[Request, list[Note]]:
    """Return the request without those nodes, and a line that says so.

    A node that the request names stays, and those stay that the job cannot do without.
    """
    named_nodes = set(expand(request.nodelist or ""))
    excluded = set(expand(request.exclude or ""))
    try:
        bad_nodes_here = nodes_to_avoid(state, cluster, states)
    except MemoryUnreadable as error:
        return request, [Note(f"no node is excluded: {error}; {error.hint}", warning=True)]
    # Those that failed last are the last to be taken.
    bad_nodes_here.sort(key=lambda bad_node: bad_node.when, reverse=True)
    avoided = [bad_node for bad_node in bad_nodes_here if bad_node.node not in named_nodes | excluded]
    count = len(avoided)
    while count and not fits([bad_node.node for bad_node in avoided[:count]]):
        count -= 1
    notes = []
    if avoided[:count]:
        notes.append(Note(f"excluded: {_causes(avoided[:count])} (muster nodes --clear forgets them)"))
    if avoided[count:]:
        text = f"taken, since the job has too few nodes without: {_causes(avoided[count:])}"
        notes.append(Note(text, warning=True))
    nodes = ",".join(filter(None, (request.exclude, *sorted(bad_node.node for bad_node in avoided[:count]))))
    return replace(request, exclude=nodes or None), notes


def _causes(nodes: Sequence[BadNode]) -> str:
    causes = "; ".join(f"{bad_node.node}: {bad_node.cause}, job {bad_node.job}" for bad_node in nodes[:_SHOWN])
    return f"{causes}; and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else causes


def _cause_of_node(lines: Sequence[str]) -> str | None:
    """Return the known cause that lines tell, where it is of the node."""
    if not lines:
        return None
    from muster.follow.known_causes import explain  # most submissions follow no failure

    explanation = explain(lines)
    return explanation.cause if explanation is not None and explanation.signature.of_node else None
