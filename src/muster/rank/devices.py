"""Which backend and which device: from what was asked for and what this torch has, before a device is touched."""

import re
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import contract
from .errors import WireupError
from .vendors import VENDORS, VISIBLE, Vendor, kind_of_version, vendor_of

# No GPU, in the words of CUDA, of Slurm (gres/gpu) and of the NVIDIA container runtime.
_NO_GPU = ("", "-1", "NoDevFiles", "none", "void")

_GRANTED = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


_OF_GPUS = tuple({vendor.backend for vendor in VENDORS})


class Torch(NamedTuple):
    """What this torch is and sees. `built_for` is "CUDA 12.4", "ROCm 6.2", "Intel XPU 20250101" or empty."""

    version: str
    built_for: str
    gpus: int
    collectives: bool
    """Whether it has the backend of its GPUs."""

    vendor: Vendor = VENDORS[0]
    """The makers of the GPUs that it is built for."""


class Backend(NamedTuple):
    """What the process group is made with, and one line to say where that is not what was asked for."""

    name: str
    device_type: str
    notice: Optional[str] = None


def this_torch() -> Torch:
    """Return the facts of the torch in this process. No GPU is initialised."""
    import torch

    distributed = torch.distributed
    vendor = vendor_of(kind_of_version(vars(torch.version)))
    has_backend = getattr(distributed, f"is_{vendor.backend}_available", None) if vendor else None
    return Torch(
        version=str(torch.__version__),
        built_for=f"{vendor.software} {getattr(torch.version, vendor.torch_version)}" if vendor else "",
        gpus=getattr(torch, vendor.device).device_count() if vendor else 0,
        collectives=bool(has_backend and has_backend()),
        vendor=vendor or VENDORS[0],
    )


def gpus_asked_for(environment: Mapping[str, str]) -> Tuple[Optional[bool], str]:
    """Return whether GPUs were asked for, and the evidence; None where nothing says so or not."""
    expected = environment.get(contract.EXPECTED_GPUS, "")
    if expected.isdigit():
        return int(expected) > 0, f"{contract.EXPECTED_GPUS}={expected}"
    for name in (*VISIBLE, *_GRANTED):
        if name in environment:
            return environment[name].strip() not in _NO_GPU, f"{name}={environment[name]}"
    return None, ""


def choose_backend(wanted_name: Optional[str], environment: Mapping[str, str], torch: Torch) -> Backend:
    """Return the backend and the kind of device for what is wanted (None: the best there is).

    Raises WireupError where GPUs were asked for and cannot be used: never gloo in silence.
    """
    gpus, evidence = gpus_asked_for(environment)
    if wanted_name is not None and wanted_name not in _OF_GPUS:
        return Backend(str(wanted_name), "cpu")
    if gpus and not torch.gpus:
        raise WireupError(f"GPUs were asked for ({evidence}), but {_why_none(torch)}", _mend_none(torch))
    if torch.gpus and gpus is not False:
        vendor = torch.vendor
        if not torch.collectives:
            raise WireupError(
                f"there are GPUs, but this torch ({torch.version}) has no {vendor.library}",
                "install a torch that has it; backend='gloo' works, but is slow",
            )
        replacement = f"this torch is built for {vendor.software}: {vendor.backend} takes the place of {wanted_name}"
        return Backend(vendor.backend, vendor.device, None if wanted_name in (None, vendor.backend) else replacement)
    because = "no GPU was asked for" if gpus is None else f"no GPU was asked for ({evidence})"
    notice = f"{because}: gloo takes the place of {wanted_name}" if wanted_name else None
    return Backend("gloo", "cpu", notice)


def _why_none(torch: Torch) -> str:
    if not torch.built_for:
        return f"this torch ({torch.version}) is built for the CPU only"
    return f"this torch ({torch.version}, {torch.built_for}) sees none on this host"


_SOFTWARE = ", ".join(vendor.software for vendor in VENDORS[:-1]) + f" or {VENDORS[-1].software}"


def _mend_none(torch: Torch) -> str:
    if not torch.built_for:
        return f"install a torch for {_SOFTWARE}; to run without GPUs, do not ask for any (MUSTER_GPUS=0)"
    return (
        "is the driver's module loaded, was the container started with access to GPUs (--nv, --rocm, /dev/dri), and "
        f"does {next(iter(torch.vendor.tools))} show GPUs on this host? To run without, do not ask for any "
        "(MUSTER_GPUS=0)"
    )


def gpu_index(local_rank: int, gpus: int, host: str) -> int:
    """Return the index of this rank's GPU among those it sees: its own where all are visible, 0 where only one is."""
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
        other_rank = first.setdefault((host, gpu), rank)
        if other_rank != rank:
            raise WireupError(
                f"ranks {other_rank} and {rank} on {host} use the same GPU ({gpu})",
                "give each rank its own: one GPU per task in the job, all of them visible, and LOCAL_RANK to choose",
            )


def eager_is_safe(version: str) -> bool:
    """Return whether `init_process_group(device_id=…)` works: there since 2.3, it hung after 2.6.0 and before 2.7.1.

    (pytorch #153960)
    """
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    numbers = tuple(int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    return (2, 3, 0) <= numbers <= (2, 6, 0) or numbers >= (2, 7, 1)


def name_of(device: Any) -> str:
    """Return a name of the physical device, the same in every process: its UUID where this torch tells it."""
    import torch

    uuid = getattr(getattr(torch, device.type).get_device_properties(device), "uuid", None)
    return str(uuid or device)
