"""The wire-up methods by name: where a rank's identity comes from, and what the backend is to be.

The names are those of the training codes that made them known. A method names the source of the identity; the
address follows the same rules for all (`address.py`), except where MPI itself carries it.
"""

from typing import Mapping, NamedTuple, Optional

from . import contract
from .errors import WireupError


class Method(NamedTuple):
    """One row. `family` None: what the environment offers. `backend` None: NCCL on GPUs, gloo elsewhere."""

    name: str
    family: Optional[str] = None
    backend: Optional[str] = None
    meets: str = (
        "store"  # store: rank 0's; file: a shared file; mpi4py: a store announced by MPI; mpi: torch's MPI; alone
    )
    chosen: str = "by what the environment offers"


METHODS = (
    Method("auto"),
    Method("env", family="env"),
    Method("nccl-openmpi", family="openmpi", backend="nccl"),
    Method("nccl-slurm", family="slurm", backend="nccl"),
    Method("nccl-slurm-pmi", family="pmi", backend="nccl"),
    Method("nccl-mpi", backend="nccl", meets="mpi4py"),
    Method("nccl-file", backend="nccl", meets="file"),
    Method("mpi", backend="mpi", meets="mpi"),
    Method("gloo", backend="gloo"),
    Method("dummy", meets="alone"),
)


def method_named(name: str, environment: Mapping[str, str]) -> Method:
    """Return the row of that name; `auto` gives way to the one that `muster run --wireup` or the site has chosen."""
    method_name = environment.get(contract.METHOD, "") if name == "auto" else name
    source = contract.METHOD if name == "auto" else "muster.world(method=…)"
    for method in METHODS:
        if method.name == (method_name or "auto"):
            return method if method.name == "auto" else method._replace(chosen=f"by {source}")
    raise WireupError(
        f"{source} names {method_name!r}, which is not a wire-up method",
        "known: " + ", ".join(row.name for row in METHODS),
    )
