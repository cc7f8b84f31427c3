"""What a job does so that it gets done: a value of the plan; in a job that asked for none it is None."""

from __future__ import annotations

import msgspec

TASK = "%a"
"""In the folder of the checkpoints: the task of an array, as Slurm writes it in names of files."""


class Save(msgspec.Struct, frozen=True):
    """When the ranks are told to save, and how."""

    before_s: int
    """So long before the time limit."""

    signal: str
    """The signal that the ranks get, by its name without SIG."""


class Finish(msgspec.Struct, frozen=True):
    """How a job goes on after something went wrong."""

    restarts: int = 0
    """How often the same ranks may start again in the allocation."""

    spares: int = 0
    """Nodes that the job holds besides those of its ranks."""

    checkpoint: str | None = None
    """Where the script saves, as an absolute path; `%a` in it is the task of an array."""

    save: Save | None = None
    """When the ranks are told to save; None: never."""

    links: int = 0
    """How many jobs may follow each other until the script is done, the first among them; 0: this one is alone."""

    supervisor: str = ""
    """The folder of the program that steers the job (muster/life), as the nodes see it."""

    python: str = ""
    """Muster's own Python; empty: the first one that the host of the script has."""

    links_ahead: bool = False
    """All of them are queued at once, because jobs cannot queue any at this site."""
