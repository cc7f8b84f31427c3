"""A digest of a launch: the same for the same launch, whoever said why. By it a lost submission is found again.

Only declared fields count, and of each value only what differs from its default: a new field changes no digest.
Reasons are for people, and count nowhere.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from muster.model.plan import Plan, Reason
from muster.model.words import Hidden
from muster.older import sha256_of

_VERSION = 1
"""Raised when a field is declared or the form of a value changes: every digest is then another one."""

DIGESTED = (
    *("version", "site", "engine", "command", "working_directory", "snapshot", "job_name", "shape", "launcher", "mpi"),
    *("wireup", "directives", "step_flags", "mpirun_flags", "prelude", "variables", "conditions", "rendezvous"),
    *("image", "output", "label", "within", "overlap", "grace_s", "visibility", "node_prologue", "python"),
    *("rank_library", "agent", "gate", "staging", "hang", "ready", "may_be_alone", "cpu_flags", "finish", "sweep"),
    *("pack", "roles", "parts"),
)
"""The fields of a plan that make it this launch."""

LEFT_OUT = {
    "typed": "another spelling of the same launch; each word that does something stands in another field",
    "launcher_reason": "a sentence for people",
    "own_python": "another Python runs the same program",
    "supervisor": "the same program in another place",
    "texts": "the same texts in another place",
    "notes": "sentences for people, which may depend on the hour",
}
"""The fields of a plan that do not count, each with its reason."""


def digest_of(plan: Plan) -> str:
    """Return a digest that is the same for the same launch: what two submissions of one job have in common."""
    values = {name: getattr(plan, name) for name in DIGESTED if name not in {"roles", "parts"} or getattr(plan, name)}
    # The comment holds the digest.
    values["directives"] = tuple(each for each in plan.directives if each.name != "comment")
    # In ASCII: a word may hold bytes that no UTF-8 has.
    text = json.dumps([_VERSION, _plain(values)], sort_keys=True)
    return sha256_of(text.encode())[:12]


def _plain(value: Any) -> Any:
    """Return a value as lists, tables and texts: a struct under its name, with the fields that have no default."""
    if isinstance(value, Hidden):
        return {"Hidden": {}}
    if isinstance(value, msgspec.Struct):
        return {type(value).__name__: _plain(_changed_fields(value))}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if not _is_reason(item)}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value if not _is_reason(item)]
    return value


def _is_reason(value: Any) -> bool:
    """Return whether a value is a reason, alone or behind the name of what it is for."""
    return isinstance(value, Reason) or (isinstance(value, tuple) and any(isinstance(item, Reason) for item in value))


def _changed_fields(value: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a struct that differ from their defaults, by the names that they are written with."""
    kind = type(value)
    return {
        encode_name: getattr(value, name)
        for name, encode_name, default in zip(kind.__struct_fields__, kind.__struct_encode_fields__, _defaults_of(kind))
        if default is msgspec.NODEFAULT or getattr(value, name) != default
    }


@functools.cache
def _defaults_of(kind: type[msgspec.Struct]) -> tuple[Any, ...]:
    """Return the default of each field; `msgspec.structs.fields` would read all types again, a millisecond a class."""
    with_default = [_made(default) for default in kind.__struct_defaults__]
    return (*[msgspec.NODEFAULT] * (len(kind.__struct_fields__) - len(with_default)), *with_default)


def _made(default: Any) -> Any:
    """Return the value of a default, which may be a factory."""
    return default.factory() if hasattr(default, "factory") else default
