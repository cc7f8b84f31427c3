"""Which NCCL the ranks will have, as far as files and module names say. Starts nothing: `plan` may use it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from muster.facts import Facts
from muster.job.request import Request
from muster.sites.site import Site

_WHEEL = r"nvidia_nccl_cu\d+-(\d+(?:\.\d+)+)"
_MODULE = r"(?i)nccl/(\d+(?:\.\d+)+)"


def look_at_nccl(request: Request, site: Site, facts: Facts) -> Facts:
    """Return the facts with NCCL's version, where a line of the profile depends on it.

    An image keeps its own to itself.
    """
    if request.image or not any(setting.when and setting.when.nccl_below for setting in site.profile.environment):
        return facts
    python = f"{request.venv}/bin/python" if request.venv and request.venv != "none" else facts.python
    modules = (*(site.profile.modules.load or ()), *request.module)
    return replace(facts, nccl=nccl_of_environment(python) or nccl_of_modules(modules))


def nccl_of_environment(python: str | None) -> str | None:
    """Return the version of the wheel that torch brings into the environment of this interpreter."""
    if python is None:
        return None
    from pathlib import Path

    folders = (Path(python).parent.parent / "lib").glob("python3*/site-packages/nvidia_nccl_cu*.dist-info")
    matches = (re.match(_WHEEL, folder.name) for folder in sorted(folders))
    return next((match[1] for match in matches if match), None)


def nccl_of_modules(names: Iterable[str]) -> str | None:
    """Return the version in the last module that is called NCCL."""
    versions = [match[1] for name in names if (match := re.match(_MODULE, name))]
    return versions[-1] if versions else None
