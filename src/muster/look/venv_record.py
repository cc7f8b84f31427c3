"""What a virtual environment was built with, against what it will run with. Reads files: `plan` may use it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from muster.look.nccl import nccl_of_environment
from muster.rank.vendors import VENDORS, kind_of_version

RECORD = "muster.json"


class RunsOn(msgspec.Struct, frozen=True):
    """The nodes that it will run on, as far as they are known."""

    modules: tuple[str, ...] = ()
    arch: str | None = None
    gpu_kind: str | None = None
    gpus: bool = False
    """Whether any are asked for."""


def differences(venv: Path, node: RunsOn) -> Iterator[str]:
    """Yield one sentence for each difference; none where `muster build venv` has not made it."""
    if (venv / "muster-is-building").exists():
        yield f"{venv} was left half-built: build it again"
        return
    record = _record_of(venv)
    if not record:
        return
    built_with = record.get("modules") or []
    if sorted(built_with) != sorted(node.modules):
        yield (
            f"{venv} was built with {_listed(built_with)}, and will run with {_listed(node.modules)}: "
            "--module names what is loaded"
        )
    if record.get("python") and (now := _python_of(venv)) not in {None, record["python"]}:
        yield f"{venv} was built with Python {record['python']}, and has {now} now"
    yield from _of_kinds(venv, record, node)
    if record.get("torch"):
        if (now := _torch_of(venv)) != record["torch"]:
            yield f"{venv} was built with torch {record['torch']}, and has {now or 'none'} now: build it again"
        # A torch that brings its own NCCL says which; another's lies in no folder of a fixed name.
        nccl = nccl_of_environment(str(venv / "bin/python"))
        if record.get("nccl") and nccl and nccl != record["nccl"]:
            yield f"{venv} was built with NCCL {record['nccl']}, and has {nccl} now: build it again"


_GPU_NAMES = {**{vendor.kind: vendor.software for vendor in VENDORS}, "cpu": "CPUs"}


def _of_kinds(venv: Path, record: Mapping[str, Any], node: RunsOn) -> Iterator[str]:
    if record.get("arch") and node.arch and record["arch"] != node.arch:
        yield f"{venv} was built for {record['arch']}, but the nodes are {node.arch}: build it on a node, with --job"
    if not record.get("torch") or not node.gpus or node.gpu_kind is None:
        return
    built_for = kind_of_version(record) or "cpu"
    if built_for != node.gpu_kind:
        yield (
            f"the torch in {venv} is built for {_GPU_NAMES[built_for]}, "
            f"and the nodes have {_GPU_NAMES.get(node.gpu_kind, node.gpu_kind)} GPUs"
        )


def cpu_flags_needed(venv: Path) -> tuple[str, ...]:
    """Return what the CPU could do on which something was compiled into it; nothing where all of it came as wheels."""
    record = _record_of(venv)
    flags = record.get("cpu_flags") if record.get("with") else None
    return tuple(str(flag) for flag in flags) if isinstance(flags, list) else ()


def version_of_venv(venv: Path) -> str | None:
    """Return 3.12 or the like; None: this is not a virtual environment."""
    version = _python_of(venv)
    return None if version is None else ".".join(version.split(".")[:2])


def _record_of(venv: Path) -> dict[str, Any]:
    try:
        record = json.loads((venv / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _listed(modules: Sequence[str]) -> str:
    return f"the modules {', '.join(modules)}" if modules else "no modules"


def _python_of(venv: Path) -> str | None:
    try:
        lines = (venv / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return None
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("version")), None)


def _torch_of(venv: Path) -> str | None:
    records = sorted(venv.glob("lib/python3*/site-packages/torch-*.dist-info"))
    return records[-1].name.removeprefix("torch-").removesuffix(".dist-info") if records else None
