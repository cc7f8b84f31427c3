"""The rules of the site, asked of the header as it would be submitted: each broken one is named with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.errors import refused
from muster.job.request import Request
from muster.model.plan import Directive, Shape
from muster.policy.rules import Ask, refusals
from muster.sites.site import Site
from muster.units import Memory


def check_limits(
    site: Site, request: Request, shape: Shape, launcher: str | None, directives: Sequence[Directive]
) -> None:
    """Refuse what the site's documents say it refuses; every broken rule is reported at once."""
    header = {directive.name: directive.value for directive in directives}
    broken = list(refusals(site.profile, _ask(request, shape, launcher, header)))
    if broken:
        raise refused(*((refusal, site.origin(refusal.key).words()) for refusal in broken))


def _ask(request: Request, shape: Shape, launcher: str | None, header: Mapping[str, str | None]) -> Ask:
    memory = header.get("mem")  # the profile's own, where nothing was asked
    known_names = {
        "nodes",
        "ntasks-per-node",
        "cpus-per-task",
        "time",
        "mem",
        "partition",
        "qos",
        "account",
        "constraint",
    }
    return Ask(
        nodes=shape.nodes,
        spares=request.spares,
        gpus_per_node=shape.gpus_per_node,
        gpu_type=_gpu_type(header),
        ntasks_per_node=shape.ntasks_per_node,
        cpus_per_task=shape.cpus_per_task,
        time_s=request.time.seconds if request.time else None,
        mem=request.mem or (Memory.parse(memory) if memory else None),
        partition=header.get("partition"),
        qos=header.get("qos"),
        account=header.get("account"),
        constraint=header.get("constraint"),
        launcher=launcher,
        image=str(request.image) if request.image else None,
        modules=request.module,
        flags={name: value for name, value in header.items() if name not in known_names},
    )


def _gpu_type(header: Mapping[str, str | None]) -> str | None:
    """Return the type in --gres=gpu:TYPE:N or --gpus-per-node=TYPE:N."""
    for item in (header.get("gres") or "").split(","):
        name, *rest = item.split(":")
        if name == "gpu" and len(rest) == 2:
            return rest[0]
    kind, colon, _ = (header.get("gpus-per-node") or "").partition(":")
    return kind if colon else None
