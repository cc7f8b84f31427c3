"""What a lab remembers of itself, inside: the spec it was made from."""

from __future__ import annotations

import pickle

from muster.lab import paths
from muster.lab.spec import LabSpec

__all__ = ["read_spec", "write_spec"]


def write_spec(spec: LabSpec) -> None:
    """Keep `spec` where the lab's own functions find it; only the lab's root can write there."""
    paths.SPEC.write_bytes(pickle.dumps(spec))


def read_spec() -> LabSpec:
    """The spec that this lab was made from."""
    spec: LabSpec = pickle.loads(paths.SPEC.read_bytes())  # noqa: S301  # written by write_spec, by the lab's root
    return spec
