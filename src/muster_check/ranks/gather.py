"""Gatherers: what a node shows of itself, read from files. Nothing is judged, nothing is waited for long, no process
is started but the vendor's tool. `root` of a gatherer is another tree to read: a recorded one. Long: many short ones.
"""

import itertools
import os
import re
import resource
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from muster.rank.vendors import VENDORS, VISIBLE

from .cpulist import cpu_list
from .facts import Cpus, Device, Gpu, Interface, Node, Space

_PREFIXES = (
    *("CXI_", "FI_", "GLOO_", "HSA_", "MASTER_", "MPICH_", "NCCL_", "OMP_", "OMPI_MCA_", "RCCL_", "TORCH_", "UCX_"),
    *("CCL_", "ZE_"),
)
_NAMES = frozenset(
    (
        *VISIBLE,
        "GPU_DEVICE_ORDINAL",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOADEDMODULES",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "PYTHONHOME",
        "PYTHONPATH",
        "RANK",
        "RES_OPTIONS",
        "SLURM_CPU_BIND",
        "TMPDIR",
        "WORLD_SIZE",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    )
)
# Open MPI's own wiring, which each start makes again.
_WIRING = ("OMPI_MCA_ess_", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir")
# A password in a proxy's address, or a token in a URL, must not get into a report.
_SECRET = re.compile(r"//[^/@\s]*@")

_MIB = 1 << 20


def variables_in_force(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that change how ranks find and speak to each other.

    Of the others not even the name is told.
    """
    return {
        name: _SECRET.sub("//…@", environment[name])
        for name in sorted(environment)
        if name in _NAMES or (name.startswith(_PREFIXES) and not name.startswith(_WIRING))
    }


def node_facts(environment: Mapping[str, str], directory: str) -> Node:
    """Return everything about this node that files tell; a part that cannot be read is left out."""
    start_s = time.monotonic()
    node = Node(host=host_name(), environment=variables_in_force(environment))
    for name, gather in _parts(environment, directory):
        try:
            node[name] = gather()  # type: ignore[literal-required]  # the names of _parts are the keys of Node
        except (OSError, ValueError):
            continue
    node["gathered_s"] = round(time.monotonic() - start_s, 4)
    return node


def _parts(environment: Mapping[str, str], directory: str) -> Iterator[Tuple[str, Callable[[], Any]]]:
    yield "cpus", cpus_of
    yield "gpus", gpus_of
    yield "devices", devices_of
    yield "interfaces", interfaces_of
    yield "software", lambda: _software("/")
    yield "mounts", lambda: _mounts(environment, directory, "/")
    yield "space", lambda: _space(environment, directory)
    yield "limits", _limits
    yield "leftovers", lambda: _leftovers(environment)
    yield "shared", lambda: _shared(environment, directory)
    yield "egress", lambda: _egress(environment, "/")
    yield "import_s", _import_cost


def host_name() -> str:
    """Return the name by which the node calls itself."""
    return os.uname().nodename


# --- processors -----------------------------------------------------------------------------------------------------


def cpus_of(root: str = "/") -> Cpus:
    """Return CPUs, NUMA domains and cores."""
    system = os.path.join(root, "sys/devices/system")
    numa: Dict[str, str] = {}
    for name in _numbered(os.path.join(system, "node"), "node"):
        cpus = _read(os.path.join(system, "node", f"node{name}", "cpulist"))
        if cpus:
            numa[str(name)] = cpus
    siblings = {
        _read(os.path.join(system, "cpu", f"cpu{number}", "topology", "thread_siblings_list"))
        for number in _numbered(os.path.join(system, "cpu"), "cpu")
    } - {""}
    return Cpus(
        online=_read(os.path.join(system, "cpu", "online")),
        numa=numa,
        siblings=sorted(siblings, key=lambda text: int(re.split("[,-]", text)[0])),
    )


def own_mask() -> str:
    """Return the CPUs that the kernel grants this process."""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", _read("/proc/self/status"), re.MULTILINE)
    return match.group(1) if match else cpu_list(os.sched_getaffinity(0))


def own_reach() -> List[int]:
    """Return the GPUs that this process may open, by the node's numbers: Slurm may close the others to a task."""
    paths = []
    for pattern, first in (("/dev/nvidia{}", 0), ("/dev/dri/renderD{}", 128)):
        for number in range(64):
            try:
                os.close(os.open(pattern.format(first + number), os.O_RDWR))
            except OSError:
                continue
            paths.append(number)
        if paths:
            break
    return paths


# --- GPUs and network cards -----------------------------------------------------------------------------------------


def gpus_of(root: str = "/") -> List[Gpu]:
    """Return the logical GPUs in the order of their addresses, which is the drivers' order."""
    gpus = sorted([*_nvidia(root), *_amd(root), *_intel(root)], key=lambda gpu: gpu["bus"])
    for gpu in gpus:
        place = os.path.join(root, "sys/bus/pci/devices", gpu["bus"])
        gpu["numa"] = _numa(place)
        gpu["cpus"] = _read(os.path.join(place, "local_cpulist"))
    return gpus


def _nvidia(root: str) -> Iterator[Gpu]:
    folder = os.path.join(root, "proc/driver/nvidia/gpus")
    for bus in _names(folder):
        lines = _read(os.path.join(folder, bus, "information")).splitlines()
        fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        yield Gpu(bus=bus.lower(), name=fields.get("Model", ""), uuid=fields.get("GPU UUID", ""), kind="cuda")


def _amd(root: str) -> Iterator[Gpu]:
    folder = os.path.join(root, "sys/class/kfd/kfd/topology/nodes")
    for number in _numbered(folder, ""):
        fields = dict(
            line.split(None, 1)
            for line in _read(os.path.join(folder, str(number), "properties")).splitlines()
            if " " in line
        )
        if int(fields.get("simd_count", 0)) == 0:
            continue  # a processor
        place, domain = int(fields.get("location_id", 0)), int(fields.get("domain", 0))
        bus = f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
        name = _read(os.path.join(folder, str(number), "name"))
        yield Gpu(bus=bus, name=name, uuid=fields.get("unique_id", ""), kind="rocm")


def _intel(root: str) -> Iterator[Gpu]:
    """Yield cards: by default Level Zero counts each of a card's tiles as a device of its own."""
    folder = os.path.join(root, "sys/class/drm")
    for name in _names(folder):
        place = os.path.join(folder, name, "device")
        if not re.match(r"renderD[0-9]+$", name) or _read(os.path.join(place, "vendor")) != "0x8086":
            continue
        fields = dict(line.split("=", 1) for line in _read(os.path.join(place, "uevent")).splitlines() if "=" in line)
        bus = fields.get("PCI_SLOT_NAME", "").lower()
        if bus and not bus[5:].startswith("00:"):  # bus 00: the processor's own graphics
            yield Gpu(bus=bus, name=f"Intel {fields.get('PCI_ID', '')}".strip(), uuid="", kind="xpu")


def devices_of(root: str = "/") -> List[Device]:
    """Return the RDMA devices and the state of their first ports."""
    folder = os.path.join(root, "sys/class/infiniband")
    devices = []
    for name in _names(folder):
        port = os.path.join(folder, name, "ports", "1")
        devices.append(
            Device(
                name=name,
                numa=_numa(os.path.join(folder, name, "device")),
                state=_read(os.path.join(port, "state")).partition(": ")[2],
                layer=_read(os.path.join(port, "link_layer")),
                rate=_read(os.path.join(port, "rate")),
                roce_v2=_roce_v2(port),
            )
        )
    return devices


def _roce_v2(port: str) -> List[int]:
    if _read(os.path.join(port, "link_layer")) != "Ethernet":
        return []
    return [
        index
        for index in _numbered(os.path.join(port, "gids"), "")
        if _read(os.path.join(port, "gid_attrs", "types", str(index))) == "RoCE v2"
        and _read(os.path.join(port, "gids", str(index))).startswith("0000:0000:0000:0000:0000:ffff:")
    ]


def interfaces_of(root: str = "/") -> List[Interface]:
    """Return the network interfaces with their addresses; those of containers' bridges are left out."""
    folder = os.path.join(root, "sys/class/net")
    interfaces = []
    for name in _names(folder):
        place = os.path.join(folder, name)
        if not os.path.isdir(place):
            continue
        flags = int(_read(os.path.join(place, "flags")) or "0", 16)
        carrier = _read(os.path.join(place, "carrier")) != "0"
        speed = _read(os.path.join(place, "speed"))
        interfaces.append(
            Interface(
                name=name,
                up=bool(flags & 1) and carrier,
                addresses=_addresses(name, root),
                mtu=int(_read(os.path.join(place, "mtu")) or 0),
                speed_mbit=int(speed) if speed.isdecimal() else None,
                numa=_numa(os.path.join(place, "device")),
            )
        )
    return interfaces


def _addresses(name: str, root: str) -> List[str]:
    import fcntl
    import socket
    import struct

    addresses = []
    if root == "/":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            try:
                answer = fcntl.ioctl(asker.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
                addresses.append(socket.inet_ntoa(answer[20:24]))
            except OSError:
                pass
    for line in _read(os.path.join(root, "proc/net/if_inet6")).splitlines():
        words = line.split()
        if words[-1:] == [name]:
            addresses.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0])))
    return addresses


def _numa(place: str) -> Optional[int]:
    text = _read(os.path.join(place, "numa_node"))
    return int(text) if text.isdecimal() else None


# --- software and files ---------------------------------------------------------------------------------------------


def _software(root: str) -> Dict[str, str]:
    system = os.uname()
    release = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read(os.path.join(root, "etc/os-release")), re.MULTILINE)
    software = {
        "glibc": str(os.confstr(_GLIBC)).rpartition(" ")[2] if _GLIBC in os.confstr_names else "",
        "kernel": system.release,
        "machine": system.machine,
        "system": release.group(1) if release else "",
        "python": ".".join(map(str, sys.version_info[:3])),
        **{f"{vendor.maker} driver": _driver(root, vendor.driver_version) for vendor in VENDORS},
        **_packages(),
    }
    return {name: value for name, value in software.items() if value}


_GLIBC = "CS_GNU_LIBC_VERSION"


def _driver(root: str, places: Tuple[str, ...]) -> str:
    return next((text for text in (_read(os.path.join(root, place)) for place in places) if text), "")


def _packages() -> Dict[str, str]:
    """Return the versions of what ranks must agree on, from the names of folders: nothing is imported."""
    versions: Dict[str, str] = {}
    pattern = re.compile(
        r"(torch|nvidia_nccl_cu\d+|nvidia_cuda_runtime(?:_cu\d+)?|rccl|oneccl|mpi4py|numpy)-([0-9][^-]*)\.dist-info$"
    )
    for folder in sys.path:
        if not folder.endswith(("site-packages", "dist-packages")):
            continue
        for name in _names(folder):
            match = pattern.match(name)
            if match:
                versions.setdefault(_package_name(match.group(1)), match.group(2))
    return versions


def _package_name(folder: str) -> str:
    return "nccl" if "nccl" in folder else "CUDA of torch" if "cuda_runtime" in folder else folder


_LOOKS = 200


def _import_cost() -> Dict[str, float]:
    """Return what a look at one file costs in the folder of Python's packages; nothing is imported."""
    for folder in sys.path:
        if not folder.endswith(("site-packages", "dist-packages")):
            continue
        names = [os.path.join(folder, name) for name in _names(folder)[:_LOOKS]]
        if not names:
            continue
        start_s = time.monotonic()
        for name in names:
            os.stat(name)
        return {folder: (time.monotonic() - start_s) / len(names)}
    return {}


def _places(environment: Mapping[str, str], directory: str) -> List[str]:
    paths = [environment.get(name, "") for name in ("TMPDIR", "HOME", "SCRATCH", "WORK", "MUSTER_RUN_DIR")]
    return [path for path in dict.fromkeys(["/tmp", "/dev/shm", directory, *paths]) if os.path.isdir(path)]


def _mounts(environment: Mapping[str, str], directory: str, root: str) -> Dict[str, str]:
    """Return the kind of file system of each path that ranks use."""
    kinds = {}
    for line in _read(os.path.join(root, "proc/mounts")).splitlines():
        words = line.split(" ")
        if len(words) > 2:
            kinds[words[1].replace("\\040", " ")] = words[2]
    mounts = {}
    for path in _places(environment, directory):
        parent = os.path.realpath(path)
        while parent not in kinds and parent != "/":
            parent = os.path.dirname(parent)
        mounts[path] = kinds.get(parent, "")
    return mounts


def _space(environment: Mapping[str, str], directory: str) -> List[Space]:
    spaces = []
    for path in _places(environment, directory):
        status = os.statvfs(path)
        spaces.append(
            Space(
                path=path,
                free_mib=status.f_bavail * status.f_frsize // _MIB,
                size_mib=status.f_blocks * status.f_frsize // _MIB,
                free_files=status.f_favail if status.f_files else None,
            )
        )
    return spaces


def _limits() -> Dict[str, Optional[int]]:
    limits: Dict[str, Optional[int]] = {}
    for name in ("AS", "CORE", "DATA", "MEMLOCK", "NOFILE", "NPROC", "STACK"):
        soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        limits[name.lower()] = None if soft == resource.RLIM_INFINITY else soft
    return limits


# Locks that a new process of the same user waits for, for ever; and what fills /dev/shm.
_LOCKED = (".cache/torch_extensions", ".triton/cache", ".cache/huggingface/hub/.locks")


def _leftovers(environment: Mapping[str, str]) -> List[str]:
    """Return locks and shared memory whose owner has ended: older than ten minutes and held by nobody."""
    import fcntl

    user, paths = os.getuid(), []
    old = time.time() - 600
    for name in _names("/dev/shm"):
        if name.startswith(("nccl-", "cuda.shm.", "psm2_shm", "torch_")):
            path = f"/dev/shm/{name}"
            paths += [path] if _is_old(path, user, old) and not _is_open(path) else []
    for part in _LOCKED:
        top = environment.get("TORCH_EXTENSIONS_DIR") if "torch" in part else None
        folder = top or os.path.join(environment.get("HOME", "/nowhere"), part)
        for path in _locks(folder):
            if not _is_old(path, user, old):
                continue
            with open(path, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
            if os.path.basename(path) == "lock":  # torch waits as long as the file is there, held or not
                paths.append(path)
    return paths[:20]


def _locks(folder: str) -> Iterator[str]:
    for parent, folders, files in itertools.islice(os.walk(folder), 200):
        del folders[50:]
        for name in files:
            if name == "lock" or name.endswith(".lock"):
                yield os.path.join(parent, name)


def _is_old(path: str, user: int, newest: float) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid == user and status.st_mtime < newest


def _is_open(path: str) -> bool:
    """Return whether a process of this user has it mapped or open."""
    for pid in _names("/proc"):
        if not pid.isdecimal():
            continue
        try:
            with open(f"/proc/{pid}/maps", "rb") as file:
                if path.encode() in file.read():
                    return True
        except OSError:
            continue
    return False


def _shared(environment: Mapping[str, str], directory: str) -> Dict[str, str]:
    """Return what tells whether two nodes see the same folder: its number; and what LD_PRELOAD names in vain."""
    shared_paths = {}
    for path in (directory, environment.get("MUSTER_RUN_DIR", "")):
        if not path:
            continue
        try:
            status = os.stat(path)
            shared_paths[path] = f"{status.st_ino}"
        except OSError as error:
            shared_paths[path] = f"not there: {error.strerror}"
    preloaded = [path for path in environment.get("LD_PRELOAD", "").replace(":", " ").split() if path.startswith("/")]
    absent = next((path for path in preloaded if not os.path.exists(path)), None)
    if absent is not None:
        shared_paths["LD_PRELOAD"] = absent
    return shared_paths


def _egress(environment: Mapping[str, str], root: str) -> bool:
    """Return whether there is a way out: a default route, or a proxy. Nobody outside is asked."""
    if any(environment.get(name) for name in ("https_proxy", "HTTPS_PROXY")):
        return True
    routes = [line.split() for line in _read(os.path.join(root, "proc/net/route")).splitlines()[1:]]
    return any(len(words) > 7 and words[1] == words[7] == "00000000" for words in routes)


# --- reading --------------------------------------------------------------------------------------------------------


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _numbered(folder: str, prefix: str) -> List[int]:
    rests = (name[len(prefix) :] for name in _names(folder) if name.startswith(prefix))
    return sorted(int(rest) for rest in rests if rest.isdecimal())
