"""The nodes that the next job does not get: what earlier jobs tell of their nodes, held against the known errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from muster.act.bad_nodes import BadNode, MemoryUnreadable, bad_nodes
from muster.follow.node_faults import look_at_nodes
from muster.job.request import Request
from muster.model.plan import Note
from muster.rank.hostlist import expand

_SHOWN = 3


def nodes_to_avoid(state: Path, cluster: str) -> list[BadNode]:
    """Return the nodes that failed under this user's jobs on a cluster."""
    return bad_nodes(look_at_nodes(state, cluster, _cause_of_node))


def leave_out(request: Request, state: Path, cluster: str) -> tuple[Request, list[Note]]:
    """Return the request without those nodes, and a line that says so. A node that the request names stays."""
    named_nodes = set(expand(request.nodelist or ""))
    excluded = set(expand(request.exclude or ""))
    try:
        bad_nodes_here = nodes_to_avoid(state, cluster)
    except MemoryUnreadable as error:
        return request, [Note(f"no node is excluded: {error}; {error.hint}", warning=True)]
    avoided = [bad_node for bad_node in bad_nodes_here if bad_node.node not in named_nodes | excluded]
    if not avoided:
        return request, []
    nodes = ",".join(filter(None, (request.exclude, *(bad_node.node for bad_node in avoided))))
    causes = "; ".join(f"{bad_node.node}: {bad_node.cause}, job {bad_node.job}" for bad_node in avoided[:_SHOWN])
    rest_words = f"; and {len(avoided) - _SHOWN} more" if len(avoided) > _SHOWN else ""
    note = Note(f"excluded: {causes}{rest_words} (muster nodes --clear forgets them)")
    return replace(request, exclude=nodes), [note]


def _cause_of_node(lines: Sequence[str]) -> str | None:
    """Return the known cause that lines tell, where it is of the node."""
    if not lines:
        return None
    from muster.follow.known_causes import explain  # most submissions follow no failure

    explanation = explain(lines)
    return explanation.cause if explanation is not None and explanation.signature.of_node else None
