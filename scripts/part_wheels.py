"""Wheels of single packages, cut out of the whole one: the core; lint and lab, which need the core and nothing else.

Whoever wants all of Muster installs the whole wheel. Beside it these would bring the same files twice.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of a zip file
_NAME = re.compile(r"[A-Za-z0-9-]+")


class PartWheel(NamedTuple):
    """One distribution: its packages, and which requirements of the whole are its own."""

    name: str
    packages: tuple[str, ...]
    requirements: tuple[str, ...]
    needs_core: bool = True


PARTS = (
    PartWheel("muster-core", ("muster",), ("msgspec", "rich", "eval-type-backport", "tomli"), needs_core=False),
    PartWheel("muster-lint", ("muster_lint",), ("tree-sitter", "tree-sitter-bash", "pygls")),
    PartWheel("muster-lab", ("muster_lab",), ()),
)


def write_part_wheels(whole: Path, folder: Path) -> list[Path]:
    """Write one wheel for each part of the whole wheel; return their paths."""
    with zipfile.ZipFile(whole) as archive:
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    metadata = next(text.decode() for name, text in content.items() if name.endswith(".dist-info/METADATA"))
    version = whole.name.split("-")[1]
    return [_write(part, version, metadata, content, folder) for part in PARTS]


def _write(part: PartWheel, version: str, metadata: str, content: Mapping[str, bytes], folder: Path) -> Path:
    stem = f"{part.name.replace('-', '_')}-{version}"
    files = {name: text for name, text in content.items() if name.startswith(tuple(f"{own}/" for own in part.packages))}
    for name, text in content.items():
        inner_name = name.partition(".dist-info/")[2]
        # The program `muster` is of the core.
        if (
            inner_name.startswith("licenses/")
            or inner_name == "WHEEL"
            or (not part.needs_core and inner_name == "entry_points.txt")
        ):
            files[f"{stem}.dist-info/{inner_name}"] = text
    files[f"{stem}.dist-info/METADATA"] = "\n".join(_metadata_of(part, version, metadata)).encode()
    files[f"{stem}.dist-info/RECORD"] = "".join([*_records(files), f"{stem}.dist-info/RECORD,,\n"]).encode()
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _FIRST_DAY)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return path


def _metadata_of(part: PartWheel, version: str, metadata: str) -> Iterator[str]:
    """Yield the head of the whole wheel's metadata with the name and the requirements of the part."""
    head = metadata.partition("\n\n")[0].splitlines()
    needs = [value for key, _, value in (line.partition(": ") for line in head) if key == "Requires-Dist"]
    extras = {match[1] for value in needs if _name_of(value) in part.requirements
              for match in re.finditer(r"extra == ['\"]([\w-]+)", value)}  # fmt: skip
    for line in head:
        key, _, value = line.partition(": ")
        if key == "Name":
            yield f"Name: {part.name}"
        elif key == "Requires-Dist":
            if _name_of(value) in part.requirements:
                yield line
        elif key == "Provides-Extra":
            if value in extras:
                yield line
        elif key != "Description-Content-Type":
            yield line
    if part.needs_core:
        yield f"Requires-Dist: {PARTS[0].name}=={version}"
    yield ""


def _name_of(requirement: str) -> str:
    match = _NAME.match(requirement)
    return "" if match is None else match[0]


def _records(files: Mapping[str, bytes]) -> Sequence[str]:
    """Return the line of each file: its path, its digest, its size."""
    return [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b'=').decode()},{len(text)}\n"
        for name, text in sorted(files.items())
    ]
