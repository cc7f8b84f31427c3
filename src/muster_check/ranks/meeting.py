"""Whether the ranks find each other: names, addresses, the port, the clocks, and who never came. Pure."""

from typing import Dict, Iterator, List, Tuple

from muster.rank.finding import BROKEN, WARNING, Finding, hosts_by_value, hosts_in_words, odd_hosts

from .facts import CheckedWorld, Rank

# What tickets, tokens and the order of log lines bear.
_CLOCKS_S = 1.0
_CLOCKS_BROKEN_S = 60.0
_SLOW_NAME_S = 1.0
# torch asks twice for each rank's connection, one after the other, on rank 0's host.
_ASKED_FOR_EACH_RANK = 2


def judge_presence(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether every host of the job, and every rank, told of itself."""
    if not world.ranks:
        return
    first = world.ranks[0]
    present_hosts = {rank["host"] for rank in world.ranks if "trouble" not in rank}
    silent = [host for host in world.hosts if host not in {rank["host"] for rank in world.ranks}]
    cut = {rank["host"]: rank["trouble"] for rank in world.ranks if "trouble" in rank and not _lacks_name(world, rank)}
    address = first["environment"].get("MASTER_ADDR", "rank 0")
    port = first["environment"].get("MASTER_PORT", "")
    if first["rank"] == 0 and silent:
        yield Finding(
            "meeting",
            BROKEN,
            f"{hosts_in_words(silent)} did not come to rank 0 ({address}:{port}) in time",
            "exclude the node (--exclude) and tell the site's support",
            tuple(silent),
        )
    for trouble, hosts in hosts_by_value((trouble, host) for host, trouble in cut.items()).items():
        yield Finding(
            "meeting",
            BROKEN,
            f"{hosts_in_words(hosts)} cannot reach rank 0 at {address}:{port}: {trouble}",
            "another --port-range where a firewall stands between nodes; else exclude the node (--exclude)",
            tuple(hosts),
        )
    missing = sorted(set(range(first["size"])) - {rank["rank"] for rank in world.ranks})
    if missing and not silent and not cut and present_hosts == {rank["host"] for rank in world.ranks}:
        yield Finding(
            "meeting",
            BROKEN,
            f"{len(missing)} of {first['size']} ranks did not report, rank {missing[0]} among them",
            "look for its own message above, or in the job's output",
        )


def _lacks_name(world: CheckedWorld, rank: Rank) -> bool:
    """Return whether the host did not come because it does not know rank 0's name: the names' judge reports that."""
    address = rank["environment"].get("MASTER_ADDR", "")
    lookups = [lookup for node in world.nodes if node["host"] == rank["host"] for lookup in node.get("names", [])]
    return any(lookup["name"] == address and not lookup["addresses"] for lookup in lookups)


def judge_port(world: CheckedWorld) -> Iterator[Finding]:
    """Yield the port of the meeting point, if another program holds it."""
    for rank in world.ranks[:1]:
        if rank.get("squatter"):
            port = rank["environment"].get("MASTER_PORT", "")
            yield Finding(
                "port",
                BROKEN,
                f"rank 0 cannot listen on port {port} of {rank['host']}: {rank['squatter']}",
                "omit --master-port, or give a --port-range that is free",
                (rank["host"],),
            )


def judge_names(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether every node knows the names of the others, by the same addresses."""
    unknown: Dict[str, List[str]] = {}
    slow: Dict[str, float] = {}
    for node in world.nodes:
        for lookup in node.get("names", []):
            if lookup["seconds"] is None or (not lookup["addresses"] and lookup["seconds"] >= _SLOW_NAME_S):
                slow[node["host"]] = lookup["seconds"] or 0.0
            elif not lookup["addresses"]:
                unknown.setdefault(lookup["name"], []).append(node["host"])
    for name, hosts in unknown.items():
        yield Finding(
            "names",
            BROKEN,
            f"{hosts_in_words(hosts)} does not know the name {name}",
            "--master-addr with a numeric address; the site's support can correct the names",
            tuple(hosts),
        )
    if slow:
        yield Finding(
            "names",
            BROKEN,
            f"the resolver does not answer on {hosts_in_words(list(slow))}",
            "--master-addr with a numeric address, and tell the site's support",
            tuple(sorted(slow)),
        )
    yield from _own_loopback(world)
    yield from _differing(world)


def _own_loopback(world: CheckedWorld) -> Iterator[Finding]:
    """Judge a node that knows itself as 127.0.1.1: it tells others that address, and gloo then fails."""
    if len({node["host"] for node in world.nodes}) < 2:
        return
    hosts = []
    for node in world.nodes:
        own_lookups = [
            lookup for lookup in node.get("names", []) if lookup["name"] == node["host"] and lookup["addresses"]
        ]
        if any(all(_is_loopback(address) for address in lookup["addresses"]) for lookup in own_lookups):
            hosts.append(node["host"])
    if hosts:
        yield Finding(
            "names",
            BROKEN,
            f"{hosts_in_words(hosts)} knows only a loopback address for its own name, and would tell it to the others",
            "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME with the interface of the network (--env)",
            tuple(hosts),
        )


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _differing(world: CheckedWorld) -> Iterator[Finding]:
    """Judge one name that has several addresses, by who is asked."""
    hosts_by_answer: Dict[str, Dict[Tuple[str, ...], List[str]]] = {}
    for node in world.nodes:
        for lookup in node.get("names", []):
            outside = tuple(sorted(address for address in lookup["addresses"] if not _is_loopback(address)))
            if outside:
                hosts_by_answer.setdefault(lookup["name"], {}).setdefault(outside, []).append(node["host"])
    for name, answers in hosts_by_answer.items():
        groups = list(answers)
        if not set(groups[0]).intersection(*groups[1:]):
            odd = odd_hosts(answers.values())
            evidence = "; ".join(f"{addresses[0]} on {hosts_in_words(hosts)}" for addresses, hosts in answers.items())
            yield Finding(
                "names",
                BROKEN,
                f"{name} has different addresses: {evidence}",
                "--master-addr with a numeric address, and tell the site's support",
                tuple(odd),
            )


def judge_reverse(world: CheckedWorld) -> Iterator[Finding]:
    """Judge what the name of every connecting address costs at this size: torch asks for each."""
    if not world.ranks:
        return
    size = world.ranks[0]["size"]
    worst: Tuple[float, str] = (0.0, "")
    silent: List[str] = []
    for node in world.nodes:
        for lookup in node.get("names", []):
            if lookup["addresses"] and lookup["seconds"] is not None and lookup["reverse_s"] is None:
                silent.append(node["host"])
            worst = max(worst, (lookup["reverse_s"] or 0.0, node["host"]))
    total = worst[0] * size * _ASKED_FOR_EACH_RANK
    if silent:
        yield _reverse(f"addresses are not answered for on {hosts_in_words(silent)}", BROKEN, silent)
    elif total > 5.0 and worst[0] > 0.05:
        yield _reverse(
            f"the name of an address takes {worst[0]:.2g} s on {worst[1]}: about {total:.0f} s for {size} ranks",
            WARNING,
            [worst[1]],
        )


def _reverse(evidence: str, status: str, hosts: List[str]) -> Finding:
    return Finding(
        "reverse names",
        status,
        evidence,
        'RES_OPTIONS="timeout:1 attempts:1" (--env) bounds it; muster.world() does not ask',
        tuple(sorted(set(hosts))),
    )


def judge_clocks(world: CheckedWorld) -> Iterator[Finding]:
    """Yield the clocks of the nodes against rank 0's."""
    ahead: Dict[str, float] = {}
    simulated = any(fault.startswith("clock") for rank in world.ranks for fault in rank.get("simulated", []))
    for rank in world.ranks:
        link = rank.get("link", {})
        offset = link.get("offset_s", 0.0)
        if abs(offset) > _CLOCKS_S + link.get("round_trip_s", 0.0):
            ahead[rank["host"]] = offset
    other_hosts = {rank["host"] for rank in world.ranks[1:]} - {rank["host"] for rank in world.ranks[:1]}
    if set(ahead) == other_hosts and len(other_hosts) > 1:
        ahead = {world.ranks[0]["host"]: -sorted(ahead.values())[len(ahead) // 2]}
    for host, offset in ahead.items():
        way = "ahead" if offset > 0 else "behind"
        yield Finding(
            "clocks",
            BROKEN if abs(offset) > _CLOCKS_BROKEN_S else WARNING,
            f"the clock of {host} is {abs(offset):.1f} s {way} of the others{' (simulated)' if simulated else ''}",
            "tell the site's support: credentials and file times go wrong with it",
            (host,),
        )
