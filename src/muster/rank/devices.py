"""Which backend and which device: from what was asked for and what this torch has, before a device is touched."""

import re
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import contract
from .errors import WireupError

__all__ = ["Backend", "Torch", "choose_backend", "eager_is_safe", "gpu_index", "gpus_asked_for", "refuse_shared"]

# No GPU, in the words of CUDA, of Slurm (gres/gpu) and of the NVIDIA container runtime.
_NO_GPU = ("", "-1", "NoDevFiles", "none", "void")

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_GRANTED = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


class Torch(NamedTuple):
    """What this torch is and sees. `built_for` is "CUDA 12.4", "ROCm 6.2" or empty."""

    version: str
    built_for: str
    gpus: int
    nccl: bool
    mpi: bool


class Backend(NamedTuple):
    """What the process group is made with, and one line to say where that is not what was asked for."""

    name: str
    device_type: str
    notice: Optional[str] = None


def this_torch() -> Torch:
    """The facts of the torch in this process. No GPU is initialised."""
    import torch

    version = torch.version
    built_for = f"CUDA {version.cuda}" if version.cuda else f"ROCm {version.hip}" if version.hip else ""
    distributed = torch.distributed
    return Torch(
        version=str(torch.__version__),
        built_for=built_for,
        gpus=torch.cuda.device_count() if built_for else 0,
        nccl=distributed.is_nccl_available(),
        mpi=distributed.is_mpi_available(),
    )


def gpus_asked_for(environment: Mapping[str, str]) -> Tuple[Optional[bool], str]:
    """Whether GPUs were asked for, and the evidence; None where nothing says so or not."""
    expected = environment.get(contract.EXPECTED_GPUS, "")
    if expected.isdigit():
        return int(expected) > 0, f"{contract.EXPECTED_GPUS}={expected}"
    for name in (*_VISIBLE, *_GRANTED):
        if name in environment:
            return environment[name].strip() not in _NO_GPU, f"{name}={environment[name]}"
    return None, ""


def choose_backend(wanted: Optional[str], environment: Mapping[str, str], torch: Torch) -> Backend:
    """The backend and the kind of device for what is wanted (None: the best there is).

    Raises WireupError where GPUs were asked for and cannot be used: never gloo in silence.
    """
    asked, evidence = gpus_asked_for(environment)
    if wanted == "mpi":
        if not torch.mpi:
            raise WireupError(
                f"this torch ({torch.version}) was built without an MPI backend",
                "use method='nccl-mpi', which takes ranks from MPI, or a torch that was built against MPI",
            )
        return Backend("mpi", "cpu")
    if wanted not in (None, "nccl"):
        return Backend(str(wanted), "cpu")
    if asked and not torch.gpus:
        raise WireupError(f"GPUs were asked for ({evidence}), but {_why_none(torch)}", _mend_none(torch))
    if torch.gpus and asked is not False:
        if not torch.nccl:
            raise WireupError(f"there are GPUs, but this torch ({torch.version}) has no NCCL", "backend='gloo' is slow")
        return Backend("nccl", "cuda")
    because = "no GPU was asked for" if asked is None else f"no GPU was asked for ({evidence})"
    notice = f"{because}: gloo takes the place of nccl" if wanted == "nccl" else None
    return Backend("gloo", "cpu", notice)


def _why_none(torch: Torch) -> str:
    if not torch.built_for:
        return f"this torch ({torch.version}) is built for the CPU only"
    return f"this torch ({torch.version}, {torch.built_for}) sees none on this host"


def _mend_none(torch: Torch) -> str:
    if not torch.built_for:
        return "install a torch for CUDA or ROCm; to run without GPUs, do not ask for any (MUSTER_GPUS=0)"
    return (
        "is the driver's module loaded, was the container started with --nv or --rocm, and does nvidia-smi or "
        "rocm-smi show GPUs on this host? To run without, do not ask for any (MUSTER_GPUS=0)"
    )


def gpu_index(local_rank: int, gpus: int, host: str) -> int:
    """The index of this rank's GPU among those it sees: its own where all are visible, 0 where only one is."""
    if gpus == 1:
        return 0
    if local_rank < gpus:
        return local_rank
    raise WireupError(
        f"local rank {local_rank} on {host} has no GPU of its own: torch sees {gpus} there",
        "start no more ranks on a node than it has GPUs (--ntasks-per-node), or ask for more GPUs",
    )


def refuse_shared(gpus: Sequence[Tuple[str, str]]) -> None:
    """Refuse a world in which two ranks use one GPU. `gpus`: host and name of each rank's, in rank order."""
    first = {}  # type: dict[Tuple[str, str], int]
    for rank, (host, gpu) in enumerate(gpus):
        other = first.setdefault((host, gpu), rank)
        if other != rank:
            raise WireupError(
                f"ranks {other} and {rank} on {host} use the same GPU ({gpu})",
                "give each rank its own: one GPU per task in the job, all of them visible, and LOCAL_RANK to choose",
            )


def eager_is_safe(version: str) -> bool:
    """Whether `init_process_group(device_id=…)` works: there since 2.3, it hung after 2.6.0 and before 2.7.1.

    (pytorch #153960)
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    numbers = tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    return (2, 3, 0) <= numbers <= (2, 6, 0) or numbers >= (2, 7, 1)


def name_of(device: Any) -> str:
    """A name of the physical device, the same in every process: its UUID where this torch tells it."""
    import torch

    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return str(uuid or device)
