"""What a module brings, by its name: CUDA, an MPI, Python. Two sites call one thing by two names. Pure."""

from __future__ import annotations

import re

from muster.sites.schema import Profile

# What the first part of a module's name stands for, in small letters; the first row that fits decides.
_MEANINGS = (
    ("torch", "PyTorch", r"pytorch|torch|py-torch|tykky|deeplrn|cineca-ai"),
    ("container", "the container engine", r"singularity|apptainer|enroot|podman|charliecloud|shifter|sarus|pyxis"),
    ("cuda", "CUDA", r"cuda|cudatoolkit|nvidia|nvhpc|nvtoolkit|cudnn"),
    ("rocm", "ROCm", r"rocm|hip|amd|rccl|craype-accel-amd"),
    ("nccl", "NCCL", r"nccl|aws-ofi|ucx|libfabric|nccl-net"),
    ("mpi", "an MPI", r"openmpi|ompi|mpich|cray-mpich|impi|intel-?mpi|mvapich2?|psmpi|parastationmpi|mpi|hpcx"),
    ("python", "Python", r"python|anaconda3?|miniconda3?|miniforge3?|mambaforge|conda|mamba|cray-python|micromamba"),
    (
        "build",
        "a compiler, or the tree of modules",
        r"gcc|gnu|intel|oneapi|compiler|prgenv.*|cmake|llvm|clang|stages|craype.*|partition|cpe|arch|env|20\d\d|foss",
    ),
    ("slurm", "Slurm", r"slurm"),
    ("tools", "a tool", r"git|tmux|vim|htop|cotainr"),
)  # fmt: skip


def meaning_of(module: str) -> tuple[str, str]:
    """Return (what it is, in words); both empty where the name says nothing."""
    for part in module.lower().split("/"):
        for kind, words, pattern in _MEANINGS:
            if re.match(rf"(?:{pattern})(?![a-z])", part):
                return kind, words
    return "", ""


def same_at(profile: Profile, kind: str) -> str | None:
    """Return the module of a site that brings this; None where its profile knows none."""
    modules = profile.modules
    for name in (*(modules.load or ()), *(modules.torch or ()), *(modules.catalogue or ())):
        first = name.partition("|")[0]
        if meaning_of(first)[0] == kind:
            return first
    return None
