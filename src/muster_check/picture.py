"""The nodes of a job as plain text: cores, NUMA domains, GPUs, network cards, and which rank may run where. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.rank.finding import hosts_in_words
from muster_check.ranks.binding import BoundRank, seats_of
from muster_check.ranks.cpulist import cpu_list, cpu_set
from muster_check.ranks.facts import CheckedWorld, Cpus, Node

_SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NOBODY, _SEVERAL, _OTHER = ".", "*", "+"
_CORES_IN_A_ROW = 64
_LONGEST_LIST = 24
_WIDTH = 80


def pictures(world: CheckedWorld) -> tuple[str, ...]:
    """Return one picture for each kind of node; nodes that look alike are named together."""
    alike: dict[str, list[str]] = {}
    for node in world.places():
        ranks = [rank for rank in world.ranks if rank["host"] == node["host"]]
        text = "\n".join(_lines(node, seats_of(node, ranks)))
        alike.setdefault(text, []).append(node["host"])
    return tuple(f"{hosts_in_words(hosts)}: {text}" for text, hosts in alike.items())


def _lines(node: Node, seats: Sequence[BoundRank]) -> Iterator[str]:
    cpus = node.get("cpus", Cpus())
    first_threads = sorted(min(cpu_set(text)) for text in cpus.get("siblings", []))
    cores = first_threads or sorted(cpu_set(cpus.get("online", "")))
    yield ", ".join(_counted(node, len(cores)))
    bound = [seat for seat in seats if seat.bound]
    for name, domain in sorted(cpus.get("numa", {}).items(), key=lambda item: int(item[0])):
        domain_cores = [core for core in cores if core in cpu_set(domain)]
        shown_domain = domain if len(domain) <= _LONGEST_LIST else f"{domain[: _LONGEST_LIST - 3]}..."
        yield from _wrapped(f"  NUMA {name:<3} CPUs {shown_domain:<16} ", _beside(node, int(name)))
        yield from _rows(domain_cores, bound)
    if not cpus.get("numa"):
        yield from _rows(cores, bound)
    domains = {int(name) for name in cpus.get("numa", {})}
    yield from _wrapped("  somewhere: ", _beside(node, None) + _elsewhere(node, domains))
    if bound:
        yield f"  {_NOBODY} no rank   {_SEVERAL} several ranks   0 the node's first rank, 1 its second, ..."
    free = [seat for seat in seats if not seat.bound]
    if free:
        yield f"  {_some(len(free), 'rank')} may run on all CPUs of the node"


def _rows(cores: Sequence[int], seats: Sequence[BoundRank]) -> Iterator[str]:
    for start in range(0, len(cores), _CORES_IN_A_ROW):
        yield "    " + "".join(_symbol(core, seats) for core in cores[start : start + _CORES_IN_A_ROW])


def _wrapped(head: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the words behind `head`, over several lines where they are many; a head of "somewhere" needs one."""
    line = head
    for word in words:
        if len(line) + len(word) + 2 > _WIDTH:
            yield line.rstrip()
            line = " " * len(head)
        line += f"{word}  "
    if words or "NUMA" in head:
        yield line.rstrip()


def _elsewhere(node: Node, domains: set[int]) -> list[str]:
    """Return what hangs on a domain that has no CPUs here."""
    hanging = {gpu.get("numa") for gpu in node.get("gpus", [])} | {numa for _, numa in _cards(node)}
    return [
        device
        for domain in sorted(domain_name for domain_name in hanging - domains if domain_name is not None)
        for device in _beside(node, domain)
    ]


def _counted(node: Node, cores: int) -> Iterator[str]:
    cpus = node.get("cpus", Cpus())
    threads = len(cpu_set(cpus.get("online", ""))) // cores if cores else 0
    yield _some(cores, "core") + (f" x {threads} threads" if threads > 1 else "")
    for things, noun in ((cpus.get("numa", {}), "NUMA domain"), (node.get("gpus", []), "GPU"), (_cards(node), "card")):
        if things:
            yield _some(len(things), noun)


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _cards(node: Node) -> list[tuple[str, int | None]]:
    """Return the RDMA devices; where there are none, the network interfaces that hang on a bus."""
    devices = [(device["name"], device.get("numa")) for device in node.get("devices", [])]
    return devices or [
        (interface["name"], interface.get("numa"))
        for interface in node.get("interfaces", [])
        if interface.get("numa") is not None
    ]


def _beside(node: Node, domain: int | None) -> list[str]:
    """Return what hangs on a NUMA domain; None: on none that is known."""
    gpus = [number for number, gpu in enumerate(node.get("gpus", [])) if gpu.get("numa") == domain]
    cards = [name for name, numa in _cards(node) if numa == domain]
    return [f"GPU {cpu_list(gpus)}"] * bool(gpus) + cards


def _symbol(core: int, seats: Sequence[BoundRank]) -> str:
    core_seats = [seat for seat in seats if core in seat.cores]
    if not core_seats:
        return _NOBODY
    if len(core_seats) > 1:
        return _SEVERAL
    return _SYMBOLS[core_seats[0].local_rank] if core_seats[0].local_rank < len(_SYMBOLS) else _OTHER
