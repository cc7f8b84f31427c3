"""Whole scheduler flags (--sbatch=FLAG): an option of Muster in them is understood, never appended blindly. Pure."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from muster.errors import RequestError
from muster.job.option import OriginKind, ValueOrigin, convert
from muster.job.request import Request, options_of
from muster.slurm.flags import SlurmFlag, is_flag, refuse_flag, split_flag


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
