"""Rows of a sweep beside each other on one node: the share of each, and the size of the job that holds them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from muster.errors import RequestError
from muster.job.request import Request
from muster.launchers.base import Launcher
from muster.model.plan import Flag, Pack, Reason, Shape
from muster.model.words import Fragment
from muster.plan.shape import NodeShape, make_shape
from muster.plan.terms import Terms
from muster.units import Memory

# What is about a whole job or a whole node: of rows beside each other it would hold for all, or for one of them.
_OF_WHOLE_JOBS = {
    "restart": "omit it: a row that failed is submitted again with a table of its own",
    "spares": "omit it: a row needs one node",
    "until_done": "omit --sweep-per-node: then each row is a chain of its own",
    "requeue": "omit --sweep-per-node: then each row is requeued by itself",
    "save_before": "omit --sweep-per-node: then each row saves by itself",
    "hang": "omit it: the log of each row shows where it stands",
    "check": "muster check, before the sweep",
    "stage_env": "omit it",
    "stage": "omit it",
    "stage_out": "omit it",
    "output": "omit it: each row has a log of its own, muster logs JOB_ROW",
    "error": "omit it: each row has a log of its own, muster logs JOB_ROW",
    "gres": "-g GPUS, the GPUs of one row",
    "master_port": "omit it, or give --port-range",
}


def _make_pack(request: Request, node: NodeShape, launcher: Launcher, count: int) -> Pack:
    """Return what each of so many rows has of a node."""
    option = request.origin("sweep_per_node")
    if request.nodes is not None and request.nodes > 1:
        raise RequestError(
            f"{option}: a row of {request.nodes} nodes cannot share one node", hint="omit --sweep-per-node, or -N 1"
        )
    if not launcher.packs:
        raise RequestError(
            f"{option}: {launcher.name} cannot start rows beside each other on a node", hint="--launcher srun"
        )
    for field, hint in _OF_WHOLE_JOBS.items():
        if getattr(request, field):
            raise RequestError(
                f"{request.origin(field)} does not go together with {option}: rows share one job", hint=hint
            )
    shape = _shape_of_row(request, node, count)
    _check_room(shape, node, count, option)
    return Pack(count, shape, str(request.mem) if request.mem is not None else None)


def _shape_of_row(request: Request, node: NodeShape, count: int) -> Shape:
    """Return what one row has: as asked, or its share of a node's GPUs."""
    if request.gpus_per_node is None and request.ntasks_per_node is None and node.gpus:
        if node.gpus < count:
            raise RequestError(
                f"{request.origin('sweep_per_node')}: {count} rows, but a node has {node.gpus} GPUs ({node.origin})",
                hint=f"--sweep-per-node {node.gpus}, or -g 0 for rows that need no GPU",
            )
        request = replace(request, gpus_per_node=node.gpus // count)
    if node.cpus_without_gpus:
        node = replace(node, cpus_without_gpus=node.cpus_without_gpus // count)
    return make_shape(request, node)


def _check_room(shape: Shape, node: NodeShape, count: int, option: str) -> None:
    ranks = shape.ntasks_per_node
    cpus = ranks * (shape.cpus_per_task or 0)
    for name, each, held in (("GPU", shape.gpus_per_node, node.gpus), ("CPU", cpus, node.cpus)):
        if held and count * each > held:
            raise RequestError(
                f"{option}: {count} rows × {each} {name}{'s' * (each != 1)} = {count * each}, "
                f"but a node has {held} ({node.origin})",
                hint=f"--sweep-per-node {held // each}",
            )


def packed(request: Request, node: NodeShape, launcher: Launcher, count: int) -> tuple[Request, Pack]:
    """Return the request of the job that holds the rows, which is their sum, and what each row has of it."""
    pack = _make_pack(request, node, launcher, count)
    origin = request.origins["sweep_per_node"]
    whole = replace(
        request,
        nodes=1,
        ntasks_per_node=pack.rows * pack.shape.ntasks_per_node,
        gpus_per_node=pack.rows * pack.shape.gpus_per_node,
        mem=None if request.mem is None else Memory(pack.rows * request.mem.mib),
        origins={**request.origins, "ntasks_per_node": origin, "gpus_per_node": origin},
    )
    return whole, pack


def packed_terms(terms: Terms, pack: Pack) -> Terms:
    """Return the site's terms; masks of the CPUs of a whole node are for no row."""
    if pack.shape.gpus_per_node and terms.gpu_form == "none":
        raise RequestError(
            f"--sweep-per-node: at {terms.site} Slurm does not give out single GPUs",
            hint="one run in each rank: muster docs many-small-jobs",
        )
    flags = tuple(flag for flag in terms.step_flags if not str(flag.word).startswith(("--cpu-bind", "--gpu-bind")))
    return replace(terms, step_flags=flags)


def pack_flags(pack: Pack) -> Iterator[Flag]:
    """Yield the flags by which the step of a row leaves the rest of the node to its neighbours."""
    yield Flag("--exact", Reason("this row's share of the node; without it a step takes all CPUs"))
    if pack.shape.gpus_per_node:
        yield Flag(f"--gpus-per-node={pack.shape.gpus_per_node}", Reason("the GPUs of this row, and no others"))
    if not pack.shape.cpus_per_task:
        share = Reason("the CPUs of the job, divided by the ranks of all rows")
        yield Flag(Fragment('--cpus-per-task="$muster_cpus_per_task"'), share)
    memory = Reason("the memory of one row") if pack.mem else Reason("rows share the memory: a step would take it all")
    yield Flag(f"--mem={pack.mem or 0}", memory)
