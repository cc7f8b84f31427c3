"""A leading ~ in an option that names a path: the home directory, where no shell has put it there. Pure."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from muster.errors import RequestError
from muster.images.reference import ImageReference, Scheme
from muster.job.request import Request

PATHS = (
    *("bind", "chdir", "checkpoint", "conda", "error", "image", "module_use", "output", "stage", "stage_out", "sweep"),
    "venv",
)
"""The options that name a path: a settings file, quotes and --venv=~/env leave the ~ in it."""


def at_home(request: Request, home: str) -> Request:
    """Return the request with the home directory in the place of each leading ~."""
    changes: dict[str, Any] = {}
    for field in PATHS:
        value = getattr(request, field)
        new = _expanded(field, value, home)
        if new != value:
            changes[field] = new
    return replace(request, **changes) if changes else request


def _expanded(field: str, value: Any, home: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_expanded(field, each, home) for each in value)
    if isinstance(value, ImageReference):
        return replace(value, name=_path(field, value.name, home)) if value.scheme is Scheme.PATH else value
    return _path(field, value, home) if isinstance(value, str) else value


def _path(field: str, path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        return home + path[1:]
    if path.startswith("~"):
        flag = f"--{field.replace('_', '-')}"
        raise RequestError(f"{flag} {path}: only a shell knows the home of another user", hint="write the whole path")
    return path
