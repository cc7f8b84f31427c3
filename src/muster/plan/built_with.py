"""What a virtual environment was built with, against what it will run with. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from muster.facts import Facts, VenvRecord
from muster.model.plan import Engine, Shape
from muster.plan.asked import Asked
from muster.plan.site_values import node_kind
from muster.rank.vendors import VENDORS, kind_of_version


class RunsOn(msgspec.Struct, frozen=True):
    """The nodes that it will run on, as far as they are known."""

    modules: tuple[str, ...] = ()
    arch: str | None = None
    gpu_kind: str | None = None
    gpus: bool = False
    """Whether any are asked for."""


def nodes_of(asked: Asked, facts: Facts, shape: Shape) -> RunsOn:
    """Return what is known of the nodes of a launch: by the profile; without Slurm, of this host."""
    request, site = asked.request, asked.site
    of_site = () if request.image else site.profile.modules.load or ()
    modules, gpus = (*of_site, *request.module), bool(shape.gpus_per_node)
    if asked.engine is Engine.HERE:
        return RunsOn(modules, facts.machine, facts.gpu_kind, gpus)
    node = node_kind(site, request)[1]
    return RunsOn(modules, node.arch, node.gpu_kind, gpus)


def cpu_flags_needed(venv: VenvRecord) -> tuple[str, ...]:
    """Return what the CPU could do on which something was compiled into it; nothing where all of it came as wheels."""
    flags = venv.record.get("cpu_flags") if venv.record.get("with") else None
    return tuple(str(flag) for flag in flags) if isinstance(flags, list) else ()


def differences(venv: VenvRecord, node: RunsOn) -> Iterator[str]:
    """Yield one sentence for each difference; none where `muster build venv` has not made it."""
    folder, record = venv.folder, venv.record
    if venv.half_built:
        yield f"{folder} was left half-built: build it again"
        return
    if not record:
        return
    built_with = record.get("modules") or []
    if sorted(built_with) != sorted(node.modules):
        yield (
            f"{folder} was built with {_listed(built_with)}, and will run with {_listed(node.modules)}: "
            "--module names what is loaded"
        )
    if record.get("python") and venv.python not in {None, record["python"]}:
        yield f"{folder} was built with Python {record['python']}, and has {venv.python} now"
    yield from _of_kinds(venv, node)
    if record.get("torch"):
        if venv.torch != record["torch"]:
            yield f"{folder} was built with torch {record['torch']}, and has {venv.torch or 'none'} now: build it again"
        # A torch that brings its own NCCL says which; another's lies in no folder of a fixed name.
        if record.get("nccl") and venv.nccl and venv.nccl != record["nccl"]:
            yield f"{folder} was built with NCCL {record['nccl']}, and has {venv.nccl} now: build it again"


_GPU_NAMES = {**{vendor.kind: vendor.software for vendor in VENDORS}, "cpu": "CPUs"}


def _of_kinds(venv: VenvRecord, node: RunsOn) -> Iterator[str]:
    folder, record = venv.folder, venv.record
    if record.get("arch") and node.arch and record["arch"] != node.arch:
        yield f"{folder} was built for {record['arch']}, but the nodes are {node.arch}: build it on a node, with --job"
    if not record.get("torch") or not node.gpus or node.gpu_kind is None:
        return
    built_for = kind_of_version(record) or "cpu"
    if built_for != node.gpu_kind:
        yield (
            f"the torch in {folder} is built for {_GPU_NAMES[built_for]}, "
            f"and the nodes have {_GPU_NAMES.get(node.gpu_kind, node.gpu_kind)} GPUs"
        )


def _listed(modules: Sequence[str]) -> str:
    return f"the modules {', '.join(modules)}" if modules else "no modules"
