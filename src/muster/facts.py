"""What is known of this host and this cluster, as a value: gathered in `look/probe.py`, passed in everywhere else.

A fact that was not asked for or not answered is None, and is printed as unknown; nothing is guessed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def data_home(environment: Mapping[str, str], home: str) -> str:
    """Return the folder that programs keep their data in."""
    return environment.get("XDG_DATA_HOME") or f"{home}/.local/share"


class VenvFacts(msgspec.Struct, frozen=True):
    """A virtual environment that is to be used in an image."""

    folder: str
    version: str | None = None
    """Of its Python: 3.12; None: there is no such environment on this host."""

    base: str | None = None
    """The Python that it stands on, which the image has to have."""

    base_in_image: bool = False
    """Whether the image has that Python, of that version."""

    in_image: bool = False
    """Whether the environment itself lies in the image."""

    glibc: tuple[int, int] | None = None
    """The C library that its packages were built for."""

    made_for: str | None = None
    """The kind of GPUs that its torch is built for; None: it has none of its own."""


class ImageFacts(msgspec.Struct, frozen=True):
    """What this host shows of an image, and of the paths that a command in it is to see."""

    kept: str | None = None
    """The file that the site's image of a changing name is today."""

    kind: str | None = None
    """What lies at the image's path: sif, squashfs, sandbox, edf, directory, file or missing; None: not a path."""

    arch: str | None = None
    """Of its programs, as the kernel spells it: x86_64, aarch64."""

    broken: str | None = None
    """Why it cannot be what it looks like."""

    has_sh: bool | None = None
    has_rank_library: bool = False
    made_for: str | None = None
    """The kind of GPUs that its torch, or its other software, is made for: cuda, rocm, or cpu for none."""

    looked_inside: bool = False
    """Whether its files could be looked at; what is packed in a rare way shows nothing before it is mounted."""

    glibc: tuple[int, int] | None = None
    """Version of the C library in it; None: not to be seen from outside, or another kind."""

    glibc_needed: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Libraries of the host that are to be bound, and are here → the C library that each was linked with."""

    inside: frozenset[str] = frozenset()
    """Those of the command's absolute paths that a sandbox has itself."""

    real_paths: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Paths of this host that are there → where they really lie."""

    project: str | None = None
    """Top of the project that the working directory belongs to."""

    venv: VenvFacts | None = None
    """The virtual environment that is to be used in it."""

    activation: tuple[str, ...] = ()
    """Shell words by which it says that its environment is made ready."""

    programs: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Container engines on PATH here → the path to start them by."""

    package: str | None = None
    """Muster's own folder, which a rank in an image imports."""

    machine: str | None = None
    gpu_kind: str | None = None


class StagingFacts(msgspec.Struct, frozen=True):
    """What this host shows of what is to be staged: paths as the file system has them, behind links."""

    kinds: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Each path that was named, and the working directory → tree, file or missing."""

    real_paths: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The same → where they really lie."""

    environment: tuple[str, ...] = ()
    """The environment's folder, and what of its Python lies outside it and is not the system's."""

    leave_out: tuple[str, ...] = ()
    """Paths in them that its ranks have no use for."""

    relocatable: bool = False
    """It was made to work under another name."""

    signs: tuple[str, ...] = ()
    """Folders whose time changes when something is installed."""

    script: tuple[str, str] | None = None
    """The word of the command that is a script, and its path."""


class ScriptFacts(msgspec.Struct, frozen=True):
    """What the source of the command's script shows."""

    path: str
    """As it was typed."""

    shell: str | None = None
    """Its text, where it is a shell script."""

    batch: bool = False
    """It has #SBATCH lines."""

    modules: frozenset[str] = frozenset()
    """What it and its modules import."""

    never_joins: bool = False
    """Nothing in it could know of another rank."""

    may_be_alone: bool = False
    """Its ranks meet at MASTER_PORT or nowhere, by torch.distributed, and it does not show whether they do."""

    spawns: str | None = None
    """The place where it starts ranks of its own: "train.py, line 12"."""

    needs_mpi: bool = False
    """It takes its ranks from mpi4py."""

    linked_mpi: bool = False
    """It is a compiled program that is linked with an MPI."""

    waits_for_store: bool = False
    """It is a client of a store that somebody else has to serve."""

    asks_jax: bool = False
    """It calls jax.distributed.initialize()."""

    local_rank_argument: bool = False
    """It learns its device by --local_rank, and by nothing else."""


class VenvRecord(msgspec.Struct, frozen=True):
    """What `muster build venv` wrote down of a virtual environment, and what lies in it now."""

    folder: str
    half_built: bool = False
    """Its building was never finished."""

    record: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """With what it was built; empty: `muster build venv` has not made it."""

    python: str | None = None
    """The version of its Python, now; None: it has none."""

    torch: str | None = None
    nccl: str | None = None
    """The version that torch brought into it; None: torch brought none, or it cannot be seen."""


class SweepTable(msgspec.Struct, frozen=True):
    """The table of a sweep: one run for each row."""

    path: str
    """As it was typed."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def row(self, number: int) -> dict[str, str]:
        """Return the values of a row by their columns; the first row is number 1."""
        return dict(zip(self.columns, self.rows[number - 1]))


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One look at the place where a command was typed."""

    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    working_directory: str = "/"
    home: str = "/"
    user: str = ""
    python: str | None = None
    """The active environment's python, as a path: it runs a first word that ends in .py."""

    gpus: int | None = None
    hostname: str = ""

    mpi_types: tuple[str, ...] | None = None
    """What `srun --mpi=list` offers; None: not asked."""

    rank_library: str | None = None
    """A folder that holds `muster` and nothing else, for ranks whose environment has none; None: it has its own."""

    texts: str | None = None
    """The folder that holds large texts of Muster's for scripts; None: there is none, and scripts hold everything."""

    ready_folder: str | None = None
    """The folder of the module by which ranks show their stacks by themselves."""

    own_python: str | None = None
    """The Python that Muster runs in, for what the job itself asks of Muster; None: the job asks nothing."""

    package: str = "/opt/muster/muster"
    """The folder of Muster's core, which the host of a job's script sees too."""

    own_folder: str | None = None
    """The folder that the one file was unpacked into, which that Python starts; None: Muster is installed in it."""

    nccl: str | None = None
    """Version of NCCL in the environment that the ranks will have; None: not asked, or not to be seen."""

    machine: str | None = None
    """The architecture of this host's CPUs; None: not asked."""

    gpu_kind: str | None = None
    """The kind of this host's GPUs: cuda, rocm; None: not asked, or it has none."""

    image: ImageFacts | None = None
    """None: no image was asked for, or nobody has looked."""

    venv: VenvRecord | None = None
    """None: no virtual environment was named, or nobody has looked."""

    python_is_missing: bool = False
    """The environment that was named for ranks on this host has no Python."""

    forking_loaders: tuple[str, ...] = ()
    """Data loaders of the script whose workers are forked ("train.py, line 12: …"); empty: none, or not asked."""

    script: ScriptFacts | None = None
    """None: the command has no script that could be read."""

    staging: StagingFacts | None = None
    """None: nothing is to be staged, or nobody has looked."""

    table: SweepTable | None = None
    """None: no sweep was asked for."""

    launcher_file: tuple[str, str] | None = None
    """The file that a launcher in the command reads its settings from, and its text; None: none is named, or there."""
