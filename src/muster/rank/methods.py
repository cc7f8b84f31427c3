"""The wire-up methods by name: where a rank's identity comes from, and what the backend is to be."""

from typing import Mapping, NamedTuple, Optional

from . import contract
from .errors import WireupError


class Method(NamedTuple):
    """One row. `family` None: what the environment offers. `backend` None: NCCL on GPUs, gloo elsewhere."""

    name: str
    family: Optional[str] = None
    backend: Optional[str] = None
    alone: bool = False
    chosen: str = "by what the environment offers"


METHODS = (Method("auto"), Method("env", family="env"), Method("gloo", backend="gloo"), Method("dummy", alone=True))


def method_named(name: str, environment: Mapping[str, str]) -> Method:
    """Return the row of that name; `auto` gives way to the one that `muster run --wireup` has chosen."""
    method_name = environment.get(contract.METHOD, "") if name == "auto" else name
    source = contract.METHOD if name == "auto" else "muster.world(method=…)"
    for method in METHODS:
        if method.name == (method_name or "auto"):
            return method if method.name == "auto" else method._replace(chosen=f"by {source}")
    raise WireupError(
        f"{source} names {method_name!r}, which is not a wire-up method",
        "known: " + ", ".join(row.name for row in METHODS),
    )
