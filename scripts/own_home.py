"""A home that a person has just come to: no file and no variable of theirs decides what tests and demo show."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

__all__ = ["find_place", "is_open_to_all", "leave_home"]

ROOT = Path(__file__).resolve().parent.parent
HOSTS_OWN = ("/tmp", "/dev/shm", "/run")  # noqa: S108  # each host of a lab has these of its own
FOR_ALL = Path("/var/tmp")  # noqa: S108  # a folder of a new name is made in it

# Variables that Muster, Slurm, an MPI, torch, an image engine or a shell reads.
_OF_A_PERSON = re.compile(
    r"""(
    MUSTER_(?!GPU_|TEST_) | SLURM | SBATCH_ | SALLOC_ | SRUN_ | SQUEUE_ | SACCT_ | SINFO_ | SCONTROL_ | SCANCEL_
    | PMI_ | PMIX_ | OMPI_ | PRTE_ | MPICH_ | MPI_ | MV2_ | I_MPI_ | HYDRA_ | FI_ | UCX_ | HOROVOD_
    | (RANK|WORLD_SIZE|NODE_RANK|MASTER_ADDR|MASTER_PORT) $ | (LOCAL|GROUP|ROLE)_(RANK|WORLD_SIZE|NAME) | TORCHELASTIC_
    | TORCH_(?!INDEX$) | NCCL_ | RCCL_ | GLOO_ | OMP_ | MKL_ | KMP_ | GOMP_
    | HF_ | TRITON_ | WANDB_ | DEEPSPEED_ | ACCELERATE_
    | XDG_ | TMPDIR $ | CONDA_ | VIRTUAL_ENV | PYTHON(STARTUP|WARNINGS|USERBASE|NOUSERSITE|HOME|OPTIMIZE|UTF8)
    | APPTAINER | SINGULARITY | ENROOT_ | PODMAN_ | DOCKER_ | REGISTRY_AUTH_FILE $
    | LOADEDMODULES $ | MODULE | LMOD | __LMOD | __MODULES | _ModuleTable | BASH_FUNC_ | BASH_ENV $ | ENV $ | CDPATH $
    | LD_PRELOAD $ | GIT_(DIR|WORK_TREE|INDEX_FILE|CONFIG) | MAKEFLAGS $ | MAKELEVEL $ | MFLAGS $ | DBUS_
    )""",
    re.VERBOSE,
)
# `make test-gpu` takes the devices and the torch that its caller gave it.
_OF_A_GPU = re.compile(r"(CUDA|HIP|ROCR|GPU|ZE)_(VISIBLE_DEVICES|DEVICE_ORDINAL|AFFINITY_MASK)$")


def find_place(root: Path = ROOT) -> Path:
    """Return where folders lie that each user and each host of a lab has to reach.

    It is below the checkout. Where the checkout is closed to others, or lies in a folder that hosts have of their own,
    it is /var/tmp.
    """
    if any(root.is_relative_to(place) for place in HOSTS_OWN) or not is_open_to_all(root):
        return FOR_ALL
    return root / ".cache" / "tests"


def is_open_to_all(folder: Path) -> bool:
    """Return whether every user may go through the folder and all above it."""
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def leave_home(environment: MutableMapping[str, str], home: Path) -> None:
    """Change the environment to one of a person who has just come: `home` is empty, and no variable says anything."""
    person = Path(environment.get("HOME") or "/")
    cache = Path(environment.get("XDG_CACHE_HOME") or person / ".cache")
    settings = Path(environment.get("XDG_CONFIG_HOME") or person / ".config")
    on_gpu = "MUSTER_GPU_REPORT" in environment
    for name in list(environment):
        if _OF_A_PERSON.match(name) or (_OF_A_GPU.match(name) and not on_gpu):
            del environment[name]
    # The checkout's own folders stay: another Python may have Muster from there.
    packages = environment.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [path for path in packages if path and (on_gpu or Path(path).is_relative_to(ROOT))]
    if kept:
        environment["PYTHONPATH"] = os.pathsep.join(kept)
    environment["HOME"] = str(home)
    # What Muster has fetched and built is kept over many runs; each entry there is looked at before it is used.
    (home / ".cache").mkdir(parents=True)
    with suppress(OSError):  # a home that is read-only, or none
        (cache / "muster").mkdir(parents=True, exist_ok=True)
        (home / ".cache/muster").symlink_to(cache / "muster")
    # git reads a checkout that belongs to another user only where the reader's own settings allow that.
    (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    # Some programs find themselves, or their mirror, by HOME.
    environment.setdefault("PIP_CACHE_DIR", str(cache / "pip"))
    for name, places in {
        "PIP_CONFIG_FILE": (settings / "pip/pip.conf", person / ".pip/pip.conf"),
        "PYENV_ROOT": (person / ".pyenv",),
    }.items():
        found = next((str(place) for place in places if os.access(place, os.R_OK)), None)
        if found is not None:
            environment.setdefault(name, found)
