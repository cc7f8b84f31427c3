"""muster nodes: the nodes that failed under your jobs and that the next jobs do not get; forgets them on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.cli.asked_jobs import cluster, scheduler, state
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.job_words import plain, when
from muster.cli.output import print_json, print_table, say
from muster.errors import RequestError, SiteError
from muster.job.option import option
from muster.look.cluster import UNNAMED

if TYPE_CHECKING:
    from muster.act.bad_nodes import BadNode


def main(words: Words) -> int:
    """List the nodes, or forget them."""
    cluster_here = cluster()
    if cluster_here == UNNAMED:
        raise SiteError(
            "nothing tells which cluster this is, so nothing is known of its nodes",
            hint="type it where scontrol show config answers, or a slurm.conf lies",
        )
    if words.clear:
        return _clear(words, cluster_here)
    if words.operands:
        raise RequestError("nodes are named only to forget them", hint=f"muster nodes --clear {words.operands[0]}")
    from muster.follow.node_memory import nodes_to_avoid

    bad_nodes = nodes_to_avoid(state(), cluster_here, scheduler().states_of)
    if words.json:
        print_json([_as_json(bad_node) for bad_node in bad_nodes])
    elif bad_nodes:
        rows = [
            (bad_node.node, plain(bad_node.cause), bad_node.job, when(bad_node.when), when(bad_node.expires))
            for bad_node in bad_nodes
        ]
        print_table(f"nodes of {cluster_here} that submit excludes", ("node", "cause", "job", "when", "until"), rows)
    else:
        say(f"nothing is remembered against a node of {cluster_here}")
    return 0


def _clear(words: Words, cluster_here: str) -> int:
    from muster.act.bad_nodes import forget_nodes
    from muster.follow.node_memory import nodes_to_avoid

    nodes_to_avoid(state(), cluster_here, scheduler().states_of)  # what has not been read yet is forgotten as well
    forgotten = forget_nodes(state(), cluster_here, words.operands)
    if words.json:
        print_json({"cleared": forgotten})
    else:
        say(
            f"forgotten: {', '.join(forgotten)}"
            if forgotten
            else f"nothing was remembered against a node of {cluster_here}"
        )
    return 0


def _as_json(bad_node: BadNode) -> dict[str, object]:
    return {
        "node": bad_node.node,
        "cause": bad_node.cause,
        "job": bad_node.job,
        "when": bad_node.when,
        "expires": bad_node.expires,
    }


COMMAND = CommandLine(
    name="nodes",
    start=main,
    summary="""\
List the nodes that failed under your jobs. `muster submit` excludes them for a week, as far as the job has enough
others.

A node is listed if Slurm said that it died and has not got it back, if an error there is known to be a fault of nodes,
or if two scripts, which ran well on other nodes and ended so on none, suddenly ended there.""",
    options=(
        option("--clear", "forget the nodes that are named, or all if none is named"),
        JSON,
    ),
    operands="[NODE…]",
    most=None,
    examples=("muster nodes --clear node17",),
)
