"""GPUs: each rank its own, all of them there, none of them ill, the same software on every node. Pure."""

from typing import Dict, Iterator, Optional, Sequence, Tuple

from muster.rank.finding import BROKEN, NOTE, WARNING, Finding, hosts_in_words

from .binding import device_of, visible_of
from .facts import CheckedWorld, Gpu, Node, Rank
from .smi import MPS, READERS, GpuSetup, Health, read_cards, read_cuda_of_driver, read_peers, read_xids

# Events of NVIDIA's driver after which a GPU computes wrongly, slowly or not at all, until somebody resets it.
XIDS = {
    48: "an uncorrectable memory error",
    62: "its internal controller halted",
    63: "a row of its memory waits to be remapped",
    64: "a row of its memory could not be remapped",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    92: "very many correctable memory errors",
    94: "a contained uncorrectable memory error",
    95: "an uncontained uncorrectable memory error",
    119: "its system processor does not answer",
    120: "its system processor failed",
    140: "an unrecovered memory error",
}


def judge_own_device(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether each rank of a node has a GPU of its own that is there."""
    if not _uses_gpus(world):
        return
    gpus = {node["host"]: node.get("gpus", []) for node in world.nodes}
    for host in dict.fromkeys(rank["host"] for rank in world.ranks):
        owners: Dict[Tuple[str, ...], int] = {}
        for rank in (candidate for candidate in world.ranks if candidate["host"] == host):
            finding = _device_of_rank(rank, gpus.get(host, []), owners)
            if finding is not None:
                yield finding
                break


def _uses_gpus(world: CheckedWorld) -> bool:
    return bool(world.expected.get("gpus")) or any(node.get("gpus") for node in world.nodes)


def _device_of_rank(rank: Rank, gpus: Sequence[Gpu], owners: Dict[Tuple[str, ...], int]) -> Optional[Finding]:
    visible = visible_of(rank["environment"])
    if visible is None:
        return None
    place = f"rank {rank['rank']} on {rank['host']}"
    if len(visible) > 1 and rank["local_rank"] >= len(visible):
        return Finding(
            "devices",
            BROKEN,
            f"{place} is local rank {rank['local_rank']} and sees {len(visible)} GPUs ({','.join(visible)}):"
            " set_device(LOCAL_RANK) fails there",
            "as many ranks as GPUs a node: --ntasks-per-node, -g",
            (rank["host"],),
        )
    if not visible:
        return Finding(
            "devices",
            BROKEN,
            f"{place} sees no GPU",
            "ask for them with -g; in an image, let it see them",
            (rank["host"],),
        )
    number = device_of(rank, gpus)
    own_devices = (visible[0],) if number is None else (str(number),)
    if own_devices in owners and rank["local_size"] > 1:
        return Finding(
            "devices",
            BROKEN,
            f"ranks {owners[own_devices]} and {rank['rank']} on {rank['host']} use the same GPU ({own_devices[0]})",
            "let every rank see all GPUs of its node and take the one of its LOCAL_RANK (the default)",
            (rank["host"],),
        )
    owners[own_devices] = rank["rank"]
    return None


def judge_present(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether each node has as many GPUs as the others, and as many as were asked for."""
    counts = {node["host"]: len(node.get("gpus", [])) for node in world.nodes}
    if not any(counts.values()):
        return
    wanted_count = max(*counts.values(), world.expected.get("gpus", 0))
    missing = [host for host, count in counts.items() if count < wanted_count]
    if missing:
        yield Finding(
            "devices",
            BROKEN,
            f"{hosts_in_words(missing)}: the driver shows {counts[missing[0]]} of {wanted_count} GPUs",
            "exclude the node (--exclude) and tell the site's support",
            tuple(missing),
        )


def judge_health(world: CheckedWorld) -> Iterator[Finding]:
    """Yield what the vendor's tool and the kernel say of each GPU."""
    for node in world.places():
        smi = node.get("smi", {})
        for name, text in smi.items():
            if text.startswith("failed: ") and name.endswith("-smi") and node.get("gpus"):
                yield _of_node(node, WARNING, f"{name} does not answer: {text[8:].strip()}", _SUPPORT)
        for name, read in READERS.items():
            for health in read(smi.get(name, "")):
                yield from _ill(node, health)
        xids = read_xids(smi.get("dmesg", ""))
        for place, number in xids:
            if number in XIDS:
                yield _of_node(node, BROKEN, f"GPU {place}: Xid {number}, {XIDS[number]}", _SUPPORT)


def judge_gpu_cards(world: CheckedWorld) -> Iterator[Finding]:
    """Return how each GPU is set up: in parts, behind a narrow link, without memory correction, behind a daemon."""
    for node in world.places():
        smi = node.get("smi", {})
        for card in read_cards(smi.get("cards", "")):
            yield from _set_up(node, card)
        if any(MPS in answer for answer in smi.values()):
            yield _of_node(node, NOTE, "processes share the GPUs through an MPS server", _CHOICE)


def _set_up(node: Node, card: GpuSetup) -> Iterator[Finding]:
    place = f"GPU {card.place}"
    if card.is_split:
        yield _of_node(
            node,
            NOTE,
            f"{place} is divided by MIG: a rank gets one instance, and NCCL joins no two of one GPU",
            _CHOICE,
        )
    if 0 < card.width < card.full_width:
        yield _of_node(
            node,
            WARNING,
            f"{place} has {card.width} of {card.full_width} PCIe lanes: its host copies are slow",
            _SUPPORT,
        )
    if not card.has_ecc:
        yield _of_node(node, NOTE, f"{place}: ECC is switched off, a flipped bit of its memory is not seen", _CHOICE)


_CHOICE = "nothing, if the site means it so"


def judge_driver(world: CheckedWorld) -> Iterator[Finding]:
    """Judge a torch that is built for a newer CUDA than the driver serves: it does not find its GPU."""
    for node in world.places():
        serves = read_cuda_of_driver(node.get("smi", {}))
        wants = node.get("software", {}).get("CUDA of torch", "")
        if serves and wants and int(wants.split(".")[0]) > int(serves.split(".")[0]):
            yield _of_node(
                node,
                BROKEN,
                f"torch is built for CUDA {wants}, the driver serves CUDA {serves} at most",
                f"install a torch built for CUDA {serves.split('.')[0]}",
            )


def judge_peers(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether all GPUs of a node reach each other's memory where some do; a board may have no peer access."""
    for node in world.places():
        peers = read_peers(node.get("smi", {}).get("peers", ""))
        count = len(node.get("gpus", []))
        if peers and len(peers) < count * (count - 1) // 2:
            first, second, reason = peers[0]
            rest_words = f" and {len(peers) - 1} more pairs" if len(peers) > 1 else ""
            yield Finding(
                "peer access",
                WARNING,
                f"GPUs {first} and {second}{rest_words} of {node['host']} do not reach each other's memory ({reason})",
                _SUPPORT,
                (node["host"],),
            )


_SUPPORT = "exclude the node (--exclude) and tell the site's support"


def _ill(node: Node, health: Health) -> Iterator[Finding]:
    place = f"GPU {health.place}"
    if health.uncorrectable:
        yield _of_node(node, BROKEN, f"{place}: {health.uncorrectable} uncorrectable memory errors", _SUPPORT)
    if health.remap_failed:
        yield _of_node(node, BROKEN, f"{place}: a bad row of its memory could not be remapped", _SUPPORT)
    elif health.remap_pending:
        yield _of_node(node, WARNING, f"{place}: a bad row of its memory waits for a reset to be remapped", _SUPPORT)
    for trouble in health.troubles:
        yield _of_node(node, BROKEN, f"{place}: {trouble}", _SUPPORT)
    if health.slowed_by:
        yield _of_node(node, BROKEN, f"{place}: its clock is held down ({', '.join(health.slowed_by)})", _SUPPORT)
    strangers = [process for process in health.processes if MPS not in process.name]
    if strangers:
        stranger = strangers[0]
        yield _of_node(
            node,
            WARNING,
            f"{place}: process {stranger.pid} ({stranger.name}) holds {stranger.memory} of it before the job has begun",
            "end it if it is yours; else exclude the node and tell the site's support",
        )
    if health.exclusive:
        yield _of_node(
            node,
            WARNING,
            f"{place} takes one process alone (exclusive compute mode)",
            "one rank for each GPU, and data loaders that do not touch it; the site's support can change the mode",
        )


def _of_node(node: Node, status: str, evidence: str, remedy: str) -> Finding:
    return Finding("GPU health", status, f"{evidence} ({node['host']})", remedy, (node["host"],))
