"""A role with a preset: the words that start its program, and what the other roles are told of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from muster.errors import RequestError
from muster.job.option import OriginKind, ValueOrigin
from muster.job.presets import PRESET_TABLE, Preset
from muster.job.request import Request
from muster.model.plan import Reason, Variable


def with_preset(role: Request) -> Request:
    """Return the request of a role with what its program needs, unless something else was asked for."""
    preset = preset_of(role)
    if preset is None:
        return role
    origin = ValueOrigin(OriginKind.PROFILE, f"--preset {role.preset}")
    if not preset.text and not role.command:
        raise RequestError(
            f"role {role.role} has no command", hint=f"--preset {role.preset} -- vllm serve MODEL --port {{port}}"
        )
    if preset.text and role.ntasks_per_node not in {None, 1}:
        message = f"role {role.role}: {role.origin('ntasks_per_node')}: {role.preset} has one process on each node"
        raise RequestError(message, hint="omit it")
    given = {"port": preset.scheme, "ready": preset.ready}
    unasked = {name: value for name, value in given.items() if not role.given(name)}
    command = ("sh", "-c", preset.text, role.preset or "", *role.command) if preset.text else role.command
    return replace(role, **unasked, command=command, origins={**role.origins, **dict.fromkeys(unasked, origin)})


def preset_of(role: Request) -> Preset | None:
    """Return what is known of the role's program; None: it has no preset."""
    return None if role.preset is None else PRESET_TABLE[role.preset]


def has_key(role: Request) -> bool:
    """Return whether the processes of the job share a secret for this role."""
    preset = preset_of(role)
    return preset is not None and any("{own.key}" in text for text in preset.offers.values())


def offered_variables(roles: Sequence[Request], own: str) -> Iterator[Variable]:
    """Yield the variables by which a role finds the programs of the other roles, with gaps for their addresses."""
    offered_names: set[str] = set()
    for role in roles:
        preset = preset_of(role)
        if preset is None or role.role == own:
            continue
        for name, text in preset.offers.items():
            if name not in offered_names:
                reason = Reason(f"how role {role.role} is found", f"--preset {role.preset}", short="where they are")
                yield Variable(name, text.replace("{own.", f"{{{role.role}."), reason)
        offered_names.update(preset.offers)
