"""What nvidia-smi, rocm-smi and xpu-smi print of the health of GPUs. Text in, values out; pure."""

import json
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from muster_check.ranks.cpulist import whole_number


class Process(NamedTuple):
    """A process that holds memory of a GPU."""

    pid: int
    name: str
    memory: str


class Health(NamedTuple):
    """One GPU."""

    place: str
    """Its bus address, or its number."""

    uncorrectable: int = 0
    """Uncorrectable memory errors since the driver was loaded."""

    remap_pending: bool = False
    remap_failed: bool = False
    slowed_by: Tuple[str, ...] = ()
    """Reasons why its clock is held down that nobody chose: heat, power supply."""

    processes: Tuple[Process, ...] = ()
    exclusive: bool = False
    troubles: Tuple[str, ...] = ()
    """What the tool itself calls broken, in words."""


# "Clocks Throttle Reasons" before driver 535, "Clocks Event Reasons" since. A power cap is how a full GPU works.
_SLOW = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")


def read_nvidia_smi(text: str) -> List[Health]:
    """Return the GPUs of `nvidia-smi -q`, whatever sections were asked for."""
    return [_nvidia(place, block) for place, block in _blocks(text, r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+)\s*$")]


def _nvidia(place: str, block: str) -> Health:
    values = dict(_paths(block))
    volatile = [
        whole_number(value) for path, value in values.items() if "Volatile" in path and "Uncorrectable" in path[-1]
    ]
    slowed = [path[-1] for path, value in values.items() if path[-1] in _SLOW and value == "Active"]
    return Health(
        place=place.lower(),
        uncorrectable=sum(filter(None, volatile)),
        remap_pending=values.get(("Remapped Rows", "Pending")) == "Yes",
        remap_failed=values.get(("Remapped Rows", "Remapping Failure Occurred")) == "Yes",
        slowed_by=tuple(dict.fromkeys(slowed)),
        processes=tuple(_processes(block)),
        exclusive=values.get(("Compute Mode",), "").startswith("Exclusive"),
    )


def _paths(block: str) -> Iterator[Tuple[Tuple[str, ...], str]]:
    """Yield the leaves of the tree that nvidia-smi indents: the path of headings, and the value."""
    parents: List[Tuple[int, str]] = []
    for line in block.splitlines():
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        while parents and parents[-1][0] >= depth:
            parents.pop()
        name, colon, value = line.strip().partition(" : ")
        if colon:
            yield (*(heading for _, heading in parents), name.strip()), value.strip()
        else:
            parents.append((depth, line.strip().rstrip(":").strip()))


def _processes(block: str) -> Iterator[Process]:
    for part in re.split(r"^\s*Process ID\s*: ", block, flags=re.MULTILINE)[1:]:
        pid = re.match(r"[0-9]{1,18}", part)
        name = re.search(r"^\s*Name\s*: (.*)$", part, re.MULTILINE)
        memory = re.search(r"^\s*Used GPU Memory\s*: (.*)$", part, re.MULTILINE)
        if pid is not None:
            yield Process(int(pid[0]), name.group(1).strip() if name else "", memory.group(1).strip() if memory else "")


class GpuSetup(NamedTuple):
    """How one GPU is set up."""

    place: str
    is_split: bool = False
    """Whether MIG divides it into instances."""

    width: int = 0
    full_width: int = 0
    """Lanes of its PCIe link, as they are and as they could be; 0: not known."""

    has_ecc: bool = True


def read_cards(text: str) -> List[GpuSetup]:
    """Return the GPUs of `nvidia-smi --query-gpu=…` in CSV, in the columns that `rank/vendors.py` asks for."""
    return [_card(words) for words in (line.split(",") for line in text.splitlines()) if len(words) == 5]


def _card(words: List[str]) -> GpuSetup:
    place, mig, width, full, ecc = [word.strip() for word in words]
    return GpuSetup(
        place=place.lower(),
        is_split=mig == "Enabled",
        width=whole_number(width) or 0,
        full_width=whole_number(full) or 0,
        has_ecc=ecc != "Disabled",
    )


def read_cuda_of_driver(answers: Mapping[str, str]) -> str:
    """Return the newest CUDA that the driver serves, from the head of `nvidia-smi -q`; empty: it does not say."""
    match = re.search(r"^CUDA Version\s*: ([0-9]+\.[0-9]+)\s*$", answers.get("nvidia-smi", ""), re.MULTILINE)
    return match.group(1) if match else ""


MPS = "nvidia-cuda-mps-server"
"""The process through which others share a GPU."""


def read_peers(text: str) -> List[Tuple[int, int, str]]:
    """Return the pairs of GPUs that do not reach each other's memory, and the reason of `nvidia-smi topo -p2p r`."""
    peers = []
    for line in text.splitlines():
        words = line.split()
        if not words or not re.fullmatch(r"GPU[0-9]{1,9}", words[0]) or words[1:2] == ["GPU1"]:
            continue
        number = int(words[0][3:])
        peers += [
            (number, column, word)
            for column, word in enumerate(words[1:])
            if column > number and word not in ("X", "OK", "U")
        ]
    return peers


def read_rocm_smi(text: str) -> List[Health]:
    """Return the GPUs of `rocm-smi --showrasinfo`.

    Blocks that are switched on and have counted an uncorrectable error.
    """
    gpus = []
    for place, block in _blocks(text, r"^GPU\[([0-9]+)\]\s*:\s*RAS INFO\s*$"):
        rows = re.findall(r"^\s*\w+\s+ENABLED\s+([0-9]+)\s+([0-9]{1,18})\s*$", block, re.MULTILINE)
        gpus.append(Health(place=place, uncorrectable=sum(int(wrong) for _, wrong in rows)))
    return gpus


def read_xpu_smi(text: str) -> List[Health]:
    """Return the GPUs of `xpu-smi health -l -j`: a part whose status is critical is broken."""
    try:
        document = json.loads(text) if text.strip() else {}
    except ValueError:
        return []
    rows = document.get("device_list", []) if isinstance(document, dict) else []
    return [_intel(row) for row in rows if isinstance(row, dict)]


def _intel(row: Dict[str, Any]) -> Health:
    parts = [(name, part) for name, part in row.items() if isinstance(part, dict)]
    critical = [(name, part) for name, part in parts if str(part.get("status", "")).lower() == "critical"]
    troubles = [f"its {name.replace('_', ' ')} is critical: {part.get('description', '')}" for name, part in critical]
    return Health(place=str(row.get("device_id", "?")), troubles=tuple(text.rstrip(": ") for text in troubles))


def _blocks(text: str, heading: str) -> Iterator[Tuple[str, str]]:
    pieces = re.split(heading, text, flags=re.MULTILINE)
    return zip(pieces[1::2], pieces[2::2])


_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): ([0-9]{1,9}),?\s*(.*)")


def read_xids(text: str) -> Dict[Tuple[str, int], str]:
    """Return the last message of the kernel by (GPU, number of the event)."""
    return {(place, int(number)): message.strip() for place, number, message in _XID.findall(text)}


READERS: Dict[str, Callable[[str], List[Health]]] = {
    "nvidia-smi": read_nvidia_smi,
    "rocm-smi": read_rocm_smi,
    "xpu-smi": read_xpu_smi,
}
"""The name of a vendor's tool → the reader of what it prints."""
