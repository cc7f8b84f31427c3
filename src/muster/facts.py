"""What is known of this host and this cluster, as a value: gathered in `act/probe.py`, passed in everywhere else.

A fact that was not asked for or not answered is None, and is printed as unknown; nothing is guessed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Facts"]


@dataclass(frozen=True)
class Facts:
    """One look at the place where a command was typed."""

    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = "/"
    home: str = "/"
    user: str = ""
    python: str | None = None
    """The active environment's python, as a path: it runs a first word that ends in .py."""

    logical_cpus: int | None = None
    gpus: int | None = None
    hostname: str = ""

    slurm_version: tuple[int, int] | None = None
    """(24, 11): None where no Slurm client was found, or none was asked."""

    mpi_types: tuple[str, ...] | None = None
    """What `srun --mpi=list` offers; None: not asked."""

    cluster_name: str | None = None

    rank_library: str | None = None
    """A folder that holds `muster` and nothing else, for ranks whose environment has none; None: it has its own."""
