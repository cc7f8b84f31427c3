"""What a lab remembers of itself, inside: the spec it was made from."""

from __future__ import annotations

import msgspec

from muster_lab import paths
from muster_lab.spec import LabSpec


def write_spec(spec: LabSpec) -> None:
    """Keep `spec` where the functions that enter the lab later find it."""
    paths.SPEC.write_bytes(msgspec.json.encode(spec))


def read_spec() -> LabSpec:
    """Return the spec that this lab was made from."""
    return msgspec.json.decode(paths.SPEC.read_bytes(), type=LabSpec)
