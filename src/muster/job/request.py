"""The request: what a person asks for. One field is one option, whose row stands in request_options.py.

The field's default is what holds without a request; `None` means "the site or the arithmetic decides".
"""

from collections.abc import Mapping
from typing import Optional

import msgspec

from muster.images.reference import ImageReference
from muster.job.option import Option, OriginKind, ValueOrigin
from muster.job.request_options import OPTIONS
from muster.units import Memory, Walltime


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person can ask of `run`, `submit`, `plan` and `shell`."""

    command: tuple[str, ...]
    """The user's command, word for word."""

    origins: Mapping[str, ValueOrigin] = msgspec.field(default_factory=dict[str, ValueOrigin])
    """Where each given value came from: an option as typed, or a settings file and its line."""

    nodes: Optional[int] = None
    gpus_per_node: Optional[int] = None
    ntasks_per_node: Optional[int] = None
    cpus_per_task: Optional[int] = None
    gpu_type: Optional[str] = None
    gres: Optional[str] = None
    account: Optional[str] = None
    partition: Optional[str] = None
    qos: Optional[str] = None
    trial: bool = False
    constraint: Optional[str] = None
    nodelist: Optional[str] = None
    exclude: Optional[str] = None
    mem: Optional[Memory] = None
    exclusive: bool = False
    time: Optional[Walltime] = None
    distribution: Optional[str] = None

    job_name: Optional[str] = None
    output: Optional[str] = None
    error: Optional[str] = None
    chdir: Optional[str] = None
    snapshot: bool = False
    requeue: bool = False
    hang: Optional[int] = None
    stacks_ready: bool = False
    sweep: Optional[str] = None
    sweep_at_once: Optional[int] = None
    sweep_per_node: Optional[int] = None
    sbatch: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()

    torchrun: tuple[str, ...] = ()
    launcher: str = "auto"
    mpi: Optional[str] = None
    wireup: Optional[str] = None
    visibility: Optional[str] = None
    node_prologue: Optional[str] = None
    check: bool = False
    master_addr: Optional[str] = None
    master_port: Optional[int] = None
    port_range: Optional[tuple[int, int]] = None
    closed: bool = False
    grace: int = 10

    restart: int = 0
    spares: int = 0
    checkpoint: Optional[str] = None
    until_done: bool = False
    links: int = 20
    save_before: Optional[int] = None
    save_signal: str = "USR1"

    env: tuple[str, ...] = ()
    unset_env: tuple[str, ...] = ()
    export: str = "NONE"
    module: tuple[str, ...] = ()
    module_use: tuple[str, ...] = ()
    stack: Optional[str] = None
    workload: tuple[str, ...] = ()
    venv: Optional[str] = None
    conda: Optional[str] = None
    environment: Optional[str] = None
    image: Optional[ImageReference] = None
    engine: Optional[str] = None
    bind: tuple[str, ...] = ()

    role: Optional[str] = None
    file: Optional[str] = None
    preset: Optional[str] = None
    after: tuple[str, ...] = ()
    beside: Optional[str] = None
    port: Optional[str] = None
    ready: Optional[str] = None
    ready_within: int = 600
    main: bool = False
    on_failure: str = "end"

    stage_env: bool = False
    stage: tuple[str, ...] = ()
    stage_out: Optional[str] = None

    site: Optional[str] = None
    site_set: tuple[str, ...] = ()
    fresh: bool = False
    here: bool = False
    no_label: bool = False
    per_rank_files: bool = False

    roles: tuple["Request", ...] = ()
    """The programs of a job with several: each is a request of its own. Empty: the job is one program, this one."""

    def origin(self, name: str) -> str:
        """Return where the value of a field came from, in words."""
        return self.origins[name].words() if name in self.origins else "the default"

    def set_by(self, name: str) -> str:
        """Return who has set a value that somebody asked for: what stands in /etc is not the user's."""
        is_of_machine = name in self.origins and self.origins[name].kind is OriginKind.SYSTEM_SETTINGS
        return "set by the administrator" if is_of_machine else "set by you"

    def given(self, name: str) -> bool:
        """Return whether somebody asked for this value."""
        return name in self.origins

    def typed(self, name: str) -> bool:
        """Return whether the value was typed for this launch. What a settings file says is for many launches."""
        return name in self.origins and self.origins[name].kind is OriginKind.OPTION


def options_of() -> dict[str, Option]:
    """Return the options by the name of their field, in the order of the help."""
    return dict(OPTIONS)
