"""The arithmetic of nodes × ranks × GPUs × CPUs: its one home, exact, with the equation in the error. Pure."""

from __future__ import annotations

import msgspec

from muster.errors import Refusal, RequestError, refused
from muster.job.request import Request
from muster.model.plan import Reason, Shape


class NodeShape(msgspec.Struct, frozen=True):
    """What one node has, as far as it is known; None: unknown, and then nothing is checked against it."""

    gpus: int | None = None
    cpus: int | None = None
    cpus_per_gpu: int | None = None
    cpus_without_gpus: int | None = None
    """The CPUs that a job without GPUs has of a node that is its own; None: that the node is its own is not known."""

    queue: str = ""
    """The partition or QOS whose node this is, where one is known."""

    origin: str = "unknown"
    is_taken_whole: bool = True
    """Whether a request that does not say how many GPUs it wants gets all of them."""


def make_shape(request: Request, node: NodeShape, *, gpus_asked: int | None = None) -> Shape:
    """Complete the request. `gpus_asked` is what --gres or --sbatch already says about GPUs."""
    reasons: dict[str, Reason] = {}
    nodes = request.nodes or 1
    reasons["nodes"] = (
        Reason("as asked", request.origin("nodes")) if request.nodes else Reason("one node, unless more are asked for")
    )
    gpus = _gpus(request, node, gpus_asked, reasons)
    ranks = _ranks(request, node, gpus, reasons)
    if gpus and ranks > gpus:
        message = f"{ranks} ranks per node need {ranks} GPUs per node, but {gpus} are asked for"
        hint = f"--ntasks-per-node {gpus}, or --gpus-per-node {ranks}"
        raise refused((Refusal("ranks-max", message, hint, limit=gpus, accepted={"ntasks-per-node": str(gpus)}), ""))
    cpus = _cpus(request, node, ranks, gpus, reasons)
    if cpus and node.cpus and ranks * cpus > node.cpus:
        product = f"{ranks} rank{'' if ranks == 1 else 's'} × {cpus} CPUs = {ranks * cpus} CPUs per node"
        message = f"{product}, but {_a_node(node)} has {node.cpus}"
        share = node.cpus // ranks
        name, fitting = ("cpus-per-task", share) if share else ("ntasks-per-node", max(1, node.cpus // cpus))
        hint, accepted = f"--{name} {fitting}", {name: str(fitting)}
        raise refused((Refusal("cores-max", message, hint, limit=node.cpus, accepted=accepted), node.origin))
    return Shape(nodes, ranks, gpus, cpus, tuple(reasons.items()))


def _a_node(node: NodeShape) -> str:
    return f"a node of {node.queue}" if node.queue else "a node"


def _gpus(request: Request, node: NodeShape, asked_gpus: int | None, reasons: dict[str, Reason]) -> int:
    if request.gpus_per_node is not None and asked_gpus is not None and request.gpus_per_node != asked_gpus:
        message = (
            f"--gpus-per-node {request.gpus_per_node} and the flags for Slurm ({asked_gpus} GPUs) contradict each other"
        )
        raise RequestError(message, hint="give the number once")
    gpus = asked_gpus if request.gpus_per_node is None else request.gpus_per_node
    if gpus is None and node.gpus and node.is_taken_whole and request.ntasks_per_node is None:
        reasons["gpus_per_node"] = Reason(
            "all logical GPUs of a node, unless another number is asked for (-g 0: none)", node.origin
        )
        return node.gpus
    if gpus is None:
        reasons["gpus_per_node"] = Reason("no GPU was asked for")
        return 0
    if node.gpus is not None and gpus > node.gpus:
        asked_for = "1 GPU per node is asked for" if gpus == 1 else f"{gpus} GPUs per node are asked for"
        message = f"{asked_for}, but {_a_node(node)} has {node.gpus or 'none'}"
        from muster.policy.rules import fewer_gpus

        hint = fewer_gpus(request.nodes or 1, gpus, node.gpus)
        accepted = {"gpus-per-node": str(node.gpus) if node.gpus else None}
        raise refused((Refusal("gpus-max", message, hint, limit=node.gpus, accepted=accepted), node.origin))
    field = "gpus_per_node" if request.gpus_per_node is not None else "gres"
    reasons["gpus_per_node"] = Reason("as asked", request.origin(field))
    return gpus


def _ranks(request: Request, node: NodeShape, gpus: int, reasons: dict[str, Reason]) -> int:
    if request.ntasks_per_node is not None:
        reasons["ntasks_per_node"] = Reason("as asked", request.origin("ntasks_per_node"))
        return request.ntasks_per_node
    if gpus:
        reasons["ntasks_per_node"] = Reason("one rank for each GPU")
        return gpus
    reason_words = "the node has no GPU" if node.gpus == 0 else "no GPU is asked for"
    reasons["ntasks_per_node"] = Reason(f"one rank: no number was asked for, and {reason_words}")
    return 1


def _cpus(request: Request, node: NodeShape, ranks: int, gpus: int, reasons: dict[str, Reason]) -> int | None:
    if request.cpus_per_task is not None:
        reasons["cpus_per_task"] = Reason("as asked", request.origin("cpus_per_task"))
        return request.cpus_per_task
    if node.cpus_per_gpu:
        own_cpus = node.cpus_per_gpu * max(1, gpus // ranks)
        share = min(own_cpus, node.cpus // ranks) if node.cpus else own_cpus
        reasons["cpus_per_task"] = Reason("this rank's share of the node's cores", node.origin)
        return max(1, share)
    if node.cpus_without_gpus:
        text = "the node's cores, divided by its ranks: a job without GPUs has them all, unless -c asks for fewer"
        reasons["cpus_per_task"] = Reason(text, node.origin)
        return max(1, node.cpus_without_gpus // ranks)
    reasons["cpus_per_task"] = Reason("not asked for, and the share is not known: Slurm's default applies")
    return None
