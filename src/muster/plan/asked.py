"""What was asked for, and where it would run: all that the sections of a plan begin with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.errors import RequestError
from muster.facts import Facts, SweepTable
from muster.images.reference import NO_IMAGE
from muster.job.home import at_home
from muster.job.option import OriginKind, ValueOrigin, convert
from muster.job.request import Request, options_of
from muster.job.roles import ROLE_OPTIONS
from muster.model.plan import Engine
from muster.sites.site import Site
from muster.slurm.flags import SlurmFlag, gpu_type_in_gres, gpus_in_gres, is_flag, refuse_flag, split_flag


class Asked(msgspec.Struct, frozen=True):
    """One request at one site, with nothing decided."""

    request: Request
    site: Site
    engine: Engine
    typed: tuple[str, ...]
    """The command line as it was typed."""

    directory: str
    """The working directory of the ranks."""

    flags: tuple[SlurmFlag, ...] = ()
    """Flags for sbatch that Muster has no option for."""

    table: SweepTable | None = None
    """The table that the job sweeps over; None: it is one run."""

    within: bool = False
    """Over an allocation that stands."""

    stream: bool = False
    """The output goes to the terminal."""

    reasons: Mapping[str, str] = {}
    """Why the cluster's own word gave a value, by the name of its field."""

    @property
    def queued(self) -> bool:
        """Return whether the job waits in the queue, away from the terminal."""
        return self.engine is Engine.SLURM and not (self.within or self.stream)

    @property
    def has_header(self) -> bool:
        """Return whether Slurm is asked for an allocation."""
        return self.engine is Engine.SLURM and not self.within


def read_request(
    request: Request,
    site: Site,
    facts: Facts,
    *,
    typed: Sequence[str],
    engine: Engine,
    within: bool = False,
    stream: bool = False,
) -> Asked:
    """Return what was asked for, each value in its one place: whole flags of Slurm among the options."""
    _refuse_role_options(request)
    asked = Asked(request, site, engine, tuple(typed), facts.working_directory, within=within, stream=stream)
    table = _table_of(asked, facts)
    without_none = replace(request, image=None) if request.image == NO_IMAGE else request
    absorbed, flags = absorb_flags(at_home(without_none, facts.home))
    asked = replace(asked, request=absorbed, flags=flags, table=table)
    if absorbed.chdir is None:
        return asked
    from pathlib import PurePosixPath

    return replace(asked, directory=str(PurePosixPath(asked.directory) / absorbed.chdir))


def _refuse_role_options(request: Request) -> None:
    """Refuse an option of a role where the job has none: it would change nothing."""
    for field in ROLE_OPTIONS:
        if getattr(request, field) and request.typed(field):
            message = f"{request.origin(field)} is for one role among several, but the job has no role"
            raise RequestError(message, hint="--role NAME begins the options and the command of a role")


def _table_of(asked: Asked, facts: Facts) -> SweepTable | None:
    """Return the table of a sweep. Most launches have none, and do not load what knows of tables."""
    request = asked.request
    if request.sweep is None and request.sweep_at_once is None and request.sweep_per_node is None:
        return None
    from muster.plan.sweep import table_of

    return table_of(request, facts.table, queued=asked.queued)


def gpus_asked(request: Request) -> int | None:
    """Return how many GPUs of a node are asked for, be it none; None: the request does not say."""
    return gpus_in_gres(request.gres) if request.gpus_per_node is None else request.gpus_per_node


def gpu_type_asked(request: Request) -> str | None:
    """Return the type of GPU that is asked for."""
    return request.gpu_type or gpu_type_in_gres(request.gres)


def absorb_flags(request: Request) -> tuple[Request, tuple[SlurmFlag, ...]]:
    """Return the request with what its --sbatch flags say, and the flags that are left."""
    options = options_of()
    fields = {name: field for field, option in options.items() for name in option.long_names if is_flag(name)}
    values: dict[str, Any] = {}
    origins = dict(request.origins)
    flags_left: list[SlurmFlag] = []
    kind = request.origins["sbatch"].kind if request.given("sbatch") else OriginKind.OPTION
    for text in request.sbatch:
        name, value = split_flag(text)
        origin = f"--sbatch={text}"
        refuse_flag(name, value)
        field = fields.get(name)
        # --exclusive=user means less than the whole node, which is what the switch says.
        if field is None or (options[field].is_switch and value is not None):
            flags_left.append(SlurmFlag(name, value, origin, kind is OriginKind.OPTION))
            continue
        parsed = True if options[field].is_switch else convert(options[field], value or "", origin)
        if request.given(field) and getattr(request, field) != parsed:
            message = f"{request.origin(field)} and {origin} contradict each other"
            raise RequestError(message, hint="give the value once")
        values[field], origins[field] = parsed, ValueOrigin(kind, origin)
    return replace(request, sbatch=(), origins=origins, **values), tuple(flags_left)
