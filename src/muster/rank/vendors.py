"""The makers of GPUs, one row each: what torch, the drivers, Slurm and people call theirs. Imports nothing of Muster.

Both sides read it: what plans and looks on a login node, and what runs in the ranks. Another maker is one row.
"""

from typing import Mapping, NamedTuple, Optional, Tuple


class Vendor(NamedTuple):
    """One maker's GPUs."""

    kind: str
    """The word for them in profiles, options and records."""

    software: str
    """What torch is built for, in words: CUDA."""

    maker: str
    device: str
    """The type of torch's device, and the name of the module below torch."""

    backend: str
    """torch.distributed's backend for them."""

    library: str
    """The library behind that backend."""

    torch_version: str
    """The variable of torch/version.py that is not None in a torch for them."""

    visible: Tuple[str, ...]
    """The variables that hide some of them from a process; each counts within what the one before it has left."""

    signs: Tuple[str, ...]
    """Files of the driver: one of them is there where such GPUs are. Patterns of a shell."""

    driver_version: Tuple[str, ...]
    """Where the kernel shows the driver's version, below /."""

    tools: Mapping[str, Tuple[str, ...]]
    """What a check asks on a node: the name of the question, and the words."""

    survey: Mapping[str, Tuple[str, ...]]
    """What the draft of a profile asks on a node."""

    software_places: str
    """Where the maker's software lies in an image, as a pattern below /."""

    packages: str
    """How a requirement says that it is built for them, as a regular expression."""

    on_package_index: bool = True
    """Whether the usual package index has builds of torch for them."""

    eager: bool = False
    """Whether the backend is known to take `device_id`, by which ranks connect before their first collective."""


VENDORS = (
    Vendor(
        kind="cuda",
        software="CUDA",
        maker="NVIDIA",
        device="cuda",
        backend="nccl",
        library="NCCL",
        torch_version="cuda",
        visible=("CUDA_VISIBLE_DEVICES",),
        signs=("/dev/nvidiactl",),
        driver_version=("sys/module/nvidia/version",),
        tools={
            "nvidia-smi": ("nvidia-smi", "-q", "-d", "ECC,ROW_REMAPPER,PERFORMANCE,PIDS,COMPUTE"),
            "cards": (
                "nvidia-smi",
                "--query-gpu=pci.bus_id,mig.mode.current,pcie.link.width.current,pcie.link.width.max,ecc.mode.current",
                "--format=csv,noheader,nounits",
            ),
            "peers": ("nvidia-smi", "topo", "-p2p", "r"),
            "dmesg": ("dmesg", "--level=emerg,alert,crit,err,warn"),
        },
        survey={
            "nvidia": ("nvidia-smi", "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"),
            "topology": ("nvidia-smi", "topo", "-m"),
        },
        software_places="usr/local/cuda*",
        packages=r"(\+|%2B)cu\d|=cuda\d|^nvidia-(?!ml-py)|^cupy-cuda|^cudatoolkit|^cuda-|^(py|lib)?torch-(cuda|gpu)"
        r"|^nccl\b|/whl/cu\d",
        eager=True,
    ),
    Vendor(
        kind="rocm",
        software="ROCm",
        maker="AMD",
        device="cuda",
        backend="nccl",
        library="RCCL",
        torch_version="hip",
        # HIP also reads CUDA's name, for programs that were written for CUDA.
        visible=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        signs=("/dev/kfd",),
        driver_version=("sys/module/amdgpu/version",),
        tools={"rocm-smi": ("rocm-smi", "--showrasinfo", "all", "--showpids", "--showbus")},
        survey={"rocm": ("rocm-smi", "--showtoponuma")},
        software_places="opt/rocm*",
        packages=r"(\+|%2B)rocm|^cupy-rocm|^pytorch-triton-rocm|/whl/rocm",
        on_package_index=False,
        eager=True,
    ),
    Vendor(
        kind="xpu",
        software="Intel XPU",
        maker="Intel",
        device="xpu",
        backend="xccl",
        library="oneCCL",
        torch_version="xpu",
        visible=("ZE_AFFINITY_MASK",),
        # A device on bus 00 is the processor's own graphics.
        signs=tuple(
            f"/sys/bus/pci/drivers/{name}/????:{bus}:*" for name in ("i915", "xe") for bus in ("[!0]?", "0[!0]")
        ),
        driver_version=("sys/module/xe/version", "sys/module/i915/version"),
        tools={"xpu-smi": ("xpu-smi", "health", "-l", "-j")},
        survey={"xpu": ("xpu-smi", "discovery", "-j")},
        software_places="opt/intel/oneapi*",
        packages=r"(\+|%2B)xpu|^pytorch-triton-xpu|^triton-xpu|^intel-extension-for-pytorch|^oneccl|/whl/xpu",
        on_package_index=False,
    ),
)

KINDS = tuple(vendor.kind for vendor in VENDORS)
"""The words for GPUs in profiles and options."""

VISIBLE = tuple(name for vendor in VENDORS for name in vendor.visible)
"""Every variable that hides GPUs from a process."""


def vendor_of(kind: Optional[str]) -> Optional[Vendor]:
    """Return the row of a kind; None: it is of no maker that is known here, as `cpu` is."""
    return next((vendor for vendor in VENDORS if vendor.kind == kind), None)


def vendor_of_device(device: str) -> Optional[Vendor]:
    """Return the first row whose devices torch calls so."""
    return next((vendor for vendor in VENDORS if vendor.device == device), None)


def vendor_here(root: str = "/") -> Optional[Vendor]:
    """Return the maker of this machine's GPUs, by the files of a driver; None: there is none."""
    import glob

    top = root.rstrip("/")
    vendors = (vendor for vendor in VENDORS if any(glob.glob(top + sign) for sign in vendor.signs))
    return next(vendors, None)


def kind_of_version(versions: Mapping[str, object]) -> Optional[str]:
    """Return the kind whose name in torch/version.py has a value there; None: that torch is for CPUs."""
    return next((vendor.kind for vendor in VENDORS if versions.get(vendor.torch_version)), None)
