"""The build-pinned form of a conda environment file: what an environment that was made of it turned out to hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from muster.errors import RequestError


def conda_lock(file: Path, prefix: Path) -> str:
    """Return the file, with every package of the environment in `prefix` to the build, and pip's to the version."""
    packages = sorted(_packages(prefix))
    if not packages:
        raise RequestError(
            f"{prefix} is not a conda environment: it has no conda-meta with packages",
            hint="name the folder of an environment that conda made of this file; conda env list shows them",
        )
    of_pip = sorted(_of_pip(prefix))
    lines = [*_head(file), "dependencies:", *(f"  - {package}" for package in packages)]
    if of_pip:
        lines += ["  - pip:", *(f"      - {package}" for package in of_pip)]
    return "\n".join(lines) + "\n"


def _head(file: Path) -> Iterator[str]:
    """Yield what stands before the packages: a name and channels."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}", hint="give a conda environment file") from None
    is_dependency = True
    for line in lines:
        if line and not line.startswith((" ", "-", "#")):
            is_dependency = not line.startswith(("dependencies:", "prefix:"))
        if is_dependency and line.strip():
            yield line


def _packages(prefix: Path) -> Iterator[str]:
    for record in prefix.glob("conda-meta/*.json"):
        try:
            package_record = json.loads(record.read_text())
            yield f"{package_record['name']}={package_record['version']}={package_record['build']}"
        except (OSError, ValueError, KeyError, TypeError):
            raise RequestError(f"{record} cannot be read", hint="make the environment again") from None


def _of_pip(prefix: Path) -> Iterator[str]:
    """Yield packages that pip has put in: conda's own say so in INSTALLER."""
    for installer in prefix.glob("lib/python3*/site-packages/*.dist-info/INSTALLER"):
        if installer.read_text(errors="replace").strip() != "conda":
            name, _, version = installer.parent.name.removesuffix(".dist-info").rpartition("-")
            yield f"{name.lower().replace('_', '-')}=={version}"
