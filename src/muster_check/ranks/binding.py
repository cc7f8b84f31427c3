"""Where ranks run, and where their GPUs and network cards hang. Pure.

A mask as wide as the node binds nothing and is not a finding by itself: ranks that share all of it share it knowingly.
"""

from typing import Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Sized, Tuple

from muster.rank.finding import BROKEN, WARNING, Finding
from muster.rank.vendors import VENDORS, VISIBLE

from .cpulist import cpu_list, cpu_set, whole_number
from .facts import CheckedWorld, Cpus, Gpu, Node, Rank


class BoundRank(NamedTuple):
    """One rank on its node: what it may run on, and what it uses."""

    rank: int
    local_rank: int
    cpus: FrozenSet[int]
    cores: FrozenSet[int]
    """A core is known by the first of its hardware threads."""

    gpu: Optional[int]
    threads: Optional[int]
    bound: bool


def seats_of(node: Node, ranks: Sequence[Rank]) -> List[BoundRank]:
    """Return the ranks of one node."""
    core_of = _cores(node.get("cpus", Cpus()))
    online = cpu_set(node.get("cpus", Cpus()).get("online", ""))
    seats = []
    for rank in sorted(ranks, key=lambda rank: rank["local_rank"]):
        cpus = cpu_set(rank["mask"])
        threads = rank["environment"].get("OMP_NUM_THREADS", "").partition(",")[0]  # "8,2": nested regions have 2
        seats.append(
            BoundRank(
                rank=rank["rank"],
                local_rank=rank["local_rank"],
                cpus=frozenset(cpus),
                cores=frozenset(core_of.get(cpu, cpu) for cpu in cpus),
                gpu=device_of(rank, node.get("gpus", [])),
                threads=whole_number(threads),
                bound=bool(online - cpus),
            )
        )
    return seats


_OUTER = next(vendor.visible[0] for vendor in VENDORS if len(vendor.visible) > 1)


def visible_of(environment: Mapping[str, str]) -> Optional[List[str]]:
    """Return the devices that a rank sees, in its order; None: all of them. HIP's filter counts within that of ROCR."""
    outer = _listed(environment.get(_OUTER))
    inner = next((_listed(environment[name]) for name in VISIBLE if name != _OUTER and name in environment), None)
    if outer is None or inner is None:
        return outer if inner is None else inner
    numbers = [whole_number(item) for item in inner]
    return [outer[number] for number in numbers if number is not None and number < len(outer)]


def _listed(text: Optional[str]) -> Optional[List[str]]:
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]


def device_of(rank: Rank, gpus: Sequence[Gpu]) -> Optional[int]:
    """Return the node's number of the GPU that a script's set_device(LOCAL_RANK) takes; None: not known by number."""
    visible = visible_of(rank["environment"])
    if visible is None:
        number: Optional[int] = rank["local_rank"]
    else:
        # One device for each rank: whatever the script says, it gets that one.
        place = 0 if len(visible) == 1 else rank["local_rank"]
        if place >= len(visible):
            return None
        matching_gpus = [index for index, gpu in enumerate(gpus) if gpu.get("uuid", "").startswith(visible[place])]
        if visible[place].startswith("GPU-"):
            return matching_gpus[0] if len(matching_gpus) == 1 else None
        number = whole_number(visible[place])
    # The numbers count what this process may open.
    reach = rank.get("reach", [])
    if number is None or not reach:
        return number
    return reach[number] if number < len(reach) else None


def _cores(cpus: Cpus) -> Dict[int, int]:
    cores_by_thread: Dict[int, int] = {}
    for text in cpus.get("siblings", []):
        threads = sorted(cpu_set(text))
        for thread in threads:
            cores_by_thread[thread] = threads[0]
    return cores_by_thread


def _by_host(world: CheckedWorld) -> Iterator[Tuple[str, Node, List[Rank]]]:
    for host in dict.fromkeys(rank["host"] for rank in world.ranks):
        ranks = [rank for rank in world.ranks if rank["host"] == host]
        yield host, next((rank["node"] for rank in ranks if "node" in rank), Node()), ranks


def judge_threads(world: CheckedWorld) -> Iterator[Finding]:
    """Judge OpenMP's threads against the CPUs of the masks, node by node."""
    for host, node, ranks in _by_host(world):
        finding = _threads(host, seats_of(node, ranks))
        if finding is not None:
            yield finding


def judge_binding(world: CheckedWorld) -> Iterator[Finding]:
    """Judge the places of the ranks, node by node."""
    for host, node, ranks in _by_host(world):
        seats = seats_of(node, ranks)
        for finding in (
            _crowded(host, seats) or _crammed(host, seats),
            _overlap(host, seats),
            _same_mask(host, seats),
            _shared_cores(host, seats),
            _far_from_gpu(host, node, seats, world),
            _far_from_card(host, node, ranks, seats),
        ):
            if finding is not None:
                yield finding


def _crowded(host: str, seats: Sequence[BoundRank]) -> Optional[Finding]:
    """Judge whether there are more ranks than cores, where the node has more."""
    bound = [seat for seat in seats if seat.bound]
    cores: Set[int] = set()
    for seat in bound:
        cores |= seat.cores
    if len(cores) >= len(bound):
        lonely = [seat for seat in bound if len(seat.cores) == 1 and (seat.threads or 0) > 1]
        if not lonely:
            return None
        return Finding(
            "binding",
            BROKEN,
            f"rank {lonely[0].rank} on {host} has one core (CPU {cpu_list(lonely[0].cpus)})"
            f" and {lonely[0].threads} threads",
            "ask for the cores with -c, and let Muster write the srun line",
            (host,),
        )
    is_single = len(cores) == 1
    return Finding(
        "binding",
        BROKEN,
        f"all {len(bound)} ranks of {host} run on {'one core' if is_single else f'{len(cores)} cores'}"
        f" (CPUs {cpu_list({cpu for seat in bound for cpu in seat.cpus})})",
        "let Muster write the srun line (--cpus-per-task is on it), or give -c; under mpirun --bind-to none",
        (host,),
    )


def _crammed(host: str, seats: Sequence[BoundRank]) -> Optional[Finding]:
    """Judge whether ranks with one mask have fewer cores than they are; the others of the node are elsewhere."""
    sharing: Dict[FrozenSet[int], List[BoundRank]] = {}
    for seat in seats:
        if seat.bound:
            sharing.setdefault(seat.cores, []).append(seat)
    for cores, together in sharing.items():
        if len(together) > len(cores) > 0:
            ranks = " and ".join(str(seat.rank) for seat in together[:2]) + (" and others" if len(together) > 2 else "")
            return Finding(
                "binding",
                BROKEN,
                f"ranks {ranks} of {host} run on {'one core' if len(cores) == 1 else f'{len(cores)} cores'}"
                f" (CPU {cpu_list(together[0].cpus)})",
                "correct the CPU masks: each core belongs to one rank",
                (host,),
            )
    return None


def _overlap(host: str, seats: Sequence[BoundRank]) -> Optional[Finding]:
    """Judge whether two masks differ and yet have CPUs in common."""
    for first, second in _pairs(seats):
        common = first.cpus & second.cpus
        if common and first.cpus != second.cpus and first.bound and second.bound:
            return Finding(
                "binding",
                WARNING,
                f"ranks {first.rank} and {second.rank} on {host} share the CPUs {cpu_list(common)}"
                f" ({cpu_list(first.cpus)} and {cpu_list(second.cpus)})",
                "correct the CPU masks: each core belongs to one rank",
                (host,),
            )
    return None


def _same_mask(host: str, seats: Sequence[BoundRank]) -> Optional[Finding]:
    """Judge whether two ranks have one mask where others have their own; one mask for all is a launcher's agent."""
    if len({seat.cpus for seat in seats}) < 2:
        return None
    for first, second in _pairs(seats):
        if first.bound and first.cpus == second.cpus and len(first.cores) > 1:
            return Finding(
                "binding",
                WARNING,
                f"ranks {first.rank} and {second.rank} on {host} have the same CPUs {cpu_list(first.cpus)}",
                "correct the CPU masks: each core belongs to one rank",
                (host,),
            )
    return None


def _shared_cores(host: str, seats: Sequence[BoundRank]) -> Optional[Finding]:
    for first, second in _pairs(seats):
        common = first.cores & second.cores
        if common and not first.cpus & second.cpus:
            return Finding(
                "binding",
                WARNING,
                f"ranks {first.rank} and {second.rank} on {host} run on the hardware threads of "
                f"{_count(common, 'core')}"
                f" ({cpu_list(common)})",
                "--srun=--hint=nomultithread, or ask for twice the CPUs with -c",
                (host,),
            )
    return None


def _threads(host: str, seats: Sequence[BoundRank]) -> Optional[Finding]:
    """Judge whether there are more OpenMP threads than hardware threads, over all ranks with the same mask."""
    by_mask: Dict[FrozenSet[int], List[BoundRank]] = {}
    for seat in seats:
        by_mask.setdefault(seat.cpus, []).append(seat)
    for cpus, sharing in by_mask.items():
        threads = sum(seat.threads or 1 for seat in sharing)
        if threads > max(len(cpus), len(sharing)):
            subject = f"rank {sharing[0].rank}" if len(sharing) == 1 else f"{len(sharing)} ranks"
            return Finding(
                "threads",
                WARNING,
                f"{subject} on {host}: OMP_NUM_THREADS={sharing[0].threads},"
                f" so {threads} threads on {_count(cpus, 'CPU')}",
                "leave OMP_NUM_THREADS to Muster, which counts the cores of the mask;"
                " where Muster set it (--variables): -c 1, or fewer ranks on a node",
                (host,),
            )
    return None


def _far_from_gpu(host: str, node: Node, seats: Sequence[BoundRank], world: CheckedWorld) -> Optional[Finding]:
    domains = node.get("cpus", Cpus()).get("numa", {})
    far_seats = []
    for seat in seats:
        near = _near_cpus(seat.gpu, node.get("gpus", []), world.expected.get("gpu_numa", []), domains)
        if near and not near & seat.cpus:
            far_seats.append((seat, near))
    if not far_seats:
        return None
    (seat, near), *others = far_seats
    rest_words = f" (and {_count(others, 'rank')} more)" if others else ""
    return Finding(
        "binding",
        BROKEN,
        f"rank {seat.rank} on {host} runs on CPUs {cpu_list(seat.cpus)}, but its GPU {seat.gpu} hangs on"
        f" {cpu_list(near)}{rest_words}",
        "bind by the site's masks (muster site show NAME), or srun --cpu-bind / --gpu-bind=closest",
        (host,),
    )


def _near_cpus(gpu: Optional[int], gpus: Sequence[Gpu], numa_of: Sequence[int], domains: Mapping[str, str]) -> Set[int]:
    """Return the CPUs beside a GPU; empty: not known, or all of them."""
    if gpu is None or len(domains) < 2:
        return set()
    domain: Optional[int] = None
    if gpu < len(gpus):
        domain = gpus[gpu].get("numa")
    elif not gpus and gpu < len(numa_of):
        domain = numa_of[gpu]
    return cpu_set(domains.get(str(domain), ""))


def _far_from_card(host: str, node: Node, ranks: Sequence[Rank], seats: Sequence[BoundRank]) -> Optional[Finding]:
    """Return the variable leaves a rank no card of its GPU's domain, and the node has one there."""
    cards, gpus = node.get("devices", []), node.get("gpus", [])
    environment = {rank["rank"]: rank["environment"] for rank in ranks}
    for seat in seats:
        wanted_cards = environment[seat.rank].get("NCCL_IB_HCA", "")
        if seat.gpu is None or seat.gpu >= len(gpus) or not wanted_cards or wanted_cards.startswith("^"):
            continue
        domain = gpus[seat.gpu].get("numa")
        names = [part.partition(":")[0] for part in wanted_cards.lstrip("=").split(",")]
        allowed = [card for card in cards if any(card["name"].startswith(name) for name in names)]
        near = [card for card in cards if card.get("numa") == domain and card.get("state") == "ACTIVE"]
        if domain is not None and near and allowed and not any(card.get("numa") == domain for card in allowed):
            return Finding(
                "binding",
                WARNING,
                f"NCCL_IB_HCA={wanted_cards} leaves rank {seat.rank} on {host} no card beside its GPU {seat.gpu}"
                f" (NUMA {domain}, where {near[0]['name']} hangs)",
                "unset NCCL_IB_HCA: NCCL takes the nearest card of each GPU",
                (host,),
            )
    return None


def _pairs(seats: Sequence[BoundRank]) -> Iterator[Tuple[BoundRank, BoundRank]]:
    for place, first in enumerate(seats):
        for second in seats[place + 1 :]:
            yield first, second


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"
