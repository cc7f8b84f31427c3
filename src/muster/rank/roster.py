"""Who sits where, once all ranks have said what they know: nodes, local ranks, the worlds of a split. Pure."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from .errors import WireupError
from .identity import Identity


class Introduction(NamedTuple):
    """What one rank says of itself when it joins. None: its launcher did not tell it."""

    host: str
    pid: int
    started: int  # its start in the kernel's clock ticks: tells it from a later process with its number
    node_rank: Optional[int]
    local_rank: Optional[int]


class Seat(NamedTuple):
    """Where one rank sits among the others."""

    rank: int
    host: str
    pid: int
    started: int
    node_rank: int
    local_rank: int
    local_size: int


def seats(places: Sequence[Introduction]) -> Tuple[Seat, ...]:
    """Return every rank's seat, in rank order.

    Local ranks and node ranks are the launcher's where it told them to all ranks of a host, else they are counted
    in rank order. Raises WireupError when two ranks of a node have the same local rank.
    """
    nodes: Dict[Tuple[Optional[int], str], List[int]] = {}
    for rank, place in enumerate(places):
        nodes.setdefault((place.node_rank, place.host), []).append(rank)
    is_numbered = sorted(node for node, _ in nodes if node is not None) == list(range(len(nodes)))
    seat_by_rank: Dict[int, Seat] = {}
    for position, ((node_rank, host), members) in enumerate(nodes.items()):
        for rank, local_rank in zip(members, _local_ranks(members, places, host)):
            place = places[rank]
            node = node_rank if is_numbered and node_rank is not None else position
            seat_by_rank[rank] = Seat(rank, host, place.pid, place.started, node, local_rank, len(members))
    return tuple(seat_by_rank[rank] for rank in range(len(places)))


def _local_ranks(members: Sequence[int], places: Sequence[Introduction], host: str) -> List[int]:
    given_ranks = [places[rank].local_rank for rank in members]
    known_ranks = [local_rank for local_rank in given_ranks if local_rank is not None]
    if len(known_ranks) < len(given_ranks):
        return list(range(len(members)))
    owners: Dict[int, int] = {}
    for rank, local_rank in zip(members, known_ranks):
        if owners.setdefault(local_rank, rank) != rank:
            raise WireupError(
                f"ranks {owners[local_rank]} and {rank} on {host} both have local rank {local_rank}",
                "LOCAL_RANK must differ between the ranks of a host: let the launcher set it",
            )
    return known_ranks


def split(all_seats: Sequence[Seat], rank: int, instances: int) -> Tuple[Tuple[Seat, ...], int]:
    """Return the seats of this rank's world and its number, when the ranks make `instances` worlds of the same size.

    Nodes and local ranks are counted again; which device a rank has was settled by its seat among all.
    """
    if instances < 1 or len(all_seats) % instances:
        raise WireupError(
            f"{len(all_seats)} ranks cannot make {instances} worlds of the same size",
            "choose instances so that it divides the number of ranks",
        )
    if instances == 1:
        return tuple(all_seats), 0
    size = len(all_seats) // instances
    number = rank // size
    members = all_seats[number * size : (number + 1) * size]
    nodes: Dict[int, List[Seat]] = {}
    for seat in members:
        nodes.setdefault(seat.node_rank, []).append(seat)
    instance_sizes = {
        seat.rank: seat._replace(
            rank=seat.rank - number * size, node_rank=position, local_rank=local_rank, local_size=len(together)
        )
        for position, together in enumerate(nodes.values())
        for local_rank, seat in enumerate(together)
    }
    return tuple(instance_sizes[seat.rank] for seat in members), number


def absent(missing: Sequence[int], places: Sequence[Optional[Introduction]], identity: Identity) -> str:
    """Return the missing ranks in words, each with the host where it should be: 'rank 5 (n3)'."""
    hosts = _expected_hosts(places, identity)
    names = [f"{rank} ({hosts[rank]})" if hosts[rank] else str(rank) for rank in missing[:8]]
    rest_words = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    return f"{'ranks' if len(missing) > 1 else 'rank'} {', '.join(names)}{rest_words}"


def _expected_hosts(places: Sequence[Optional[Introduction]], identity: Identity) -> List[str]:
    """Return where each rank should be: where it is; else, for ranks placed in blocks, where its block is; else ''."""
    hosts = [place.host if place else "" for place in places]
    by_block = _blocks(len(places), identity)
    is_agreed = all(not host or _short(host) == _short(block) for host, block in zip(hosts, by_block))
    if by_block and is_agreed:
        return by_block
    return hosts


def _blocks(size: int, identity: Identity) -> List[str]:
    hosts = identity.hosts
    counts = identity.tasks_per_node or [size // len(hosts) for _ in hosts]
    hosts_by_rank = [host for host, tasks in zip(hosts, counts) for _ in range(tasks)]
    return hosts_by_rank if len(hosts_by_rank) == size else []


def _short(host: str) -> str:
    return host.partition(".")[0]
