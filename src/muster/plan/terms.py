"""What a site lays down for a launch, each with its reason: the plan's view of a profile. Pure."""

from __future__ import annotations

import msgspec

from muster.model.plan import Directive, Flag, Prelude, Reason, Variable


class Ports(msgspec.Struct, frozen=True):
    """Where ports may lie, and whether Slurm reserves them for a step."""

    low: int
    high: int
    reserved: bool
    reason: Reason


class Terms(msgspec.Struct, frozen=True):
    """The terms of one site."""

    site: str
    gpu_form: str
    """How GPUs are asked for: gpus-per-node, gres, or none where whole nodes come with theirs."""

    gpu_form_reason: Reason
    gpu_type: str | None
    requeue: str
    """never or always, where the site leaves no choice; preempted, where jobs of the queue make room for others."""

    requeue_reason: Reason
    export: str
    export_reason: Reason
    mpi: str | None
    """What srun is told of MPI where the program asks it."""

    directives: tuple[Directive, ...]
    step_flags: tuple[Flag, ...]
    mpirun_flags: tuple[Flag, ...]
    host_suffix: str
    address_rule: tuple[str, ...]
    address_reason: Reason
    ports: Ports
    visibility: str
    hang_s: int | None
    """After so long without a sign of life a queued job hangs; None: the default."""

    hang_reason: Reason
    variables: tuple[Variable, ...]
    prelude: tuple[Prelude, ...]
    node_prologue: tuple[str, ...]
