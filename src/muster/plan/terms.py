"""What a site lays down for a launch, each with its reason: the plan's view of a profile. Pure."""

from __future__ import annotations

import msgspec

from muster.model.plan import Directive, Flag, Prelude, Reason, Variable

# Below Linux's ephemeral range (32768-60999), above what services take.
DEFAULT_PORTS = (20000, 31999)

OWN_ENVIRONMENT = Reason("the job's environment is what this script shows, whatever shell it was submitted from")


class Ports(msgspec.Struct, frozen=True):
    """Where ports may lie, and whether Slurm reserves them for a step."""

    low: int = DEFAULT_PORTS[0]
    high: int = DEFAULT_PORTS[1]
    reserved: bool = False
    reason: Reason = Reason("below the range from which the kernel hands out ports, so nothing takes it by chance")


class Terms(msgspec.Struct, frozen=True):
    """The terms of one site. The defaults are those of a Slurm cluster of which nothing is known."""

    site: str = "generic"
    gpu_form: str = "gpus-per-node"
    """How GPUs are asked for: gpus-per-node, gres, or none where whole nodes come with theirs."""

    gpu_form_reason: Reason = Reason("what every Slurm since 19.05 understands")
    gpu_type: str | None = None
    requeue: str = "asked"
    """never or always, where the site leaves no choice; preempted, where jobs of the queue make room for others."""

    requeue_reason: Reason = Reason("the site's rule")
    export: str = "NONE"
    export_reason: Reason = OWN_ENVIRONMENT
    mpi: str | None = None
    """What srun is told of MPI where the program asks it."""

    directives: tuple[Directive, ...] = ()
    step_flags: tuple[Flag, ...] = ()
    mpirun_flags: tuple[Flag, ...] = ()
    host_suffix: str = ""
    address_rule: tuple[str, ...] = ()
    address_reason: Reason = Reason("rank 0 runs on the first host of the step")
    ports: Ports = msgspec.field(default_factory=Ports)
    visibility: str = "all"
    hang_s: int | None = None
    """After so long without a sign of life a queued job hangs; None: the default."""

    hang_reason: Reason = Reason("the site's rule")
    variables: tuple[Variable, ...] = ()
    prelude: tuple[Prelude, ...] = ()
    node_prologue: tuple[str, ...] = ()
