"""The network between the nodes: interfaces, RDMA cards, the speed of each link, and what NCCL made of it. Pure."""

from typing import Dict, Iterator, List, Sequence, Set

from muster.rank.finding import BROKEN, WARNING, Finding, hosts_by_value, hosts_in_words, odd_hosts, values_in_words

from .facts import CheckedWorld, Interface, Node

# Not much more than Ethernet of 100 Mbit/s: no network between compute nodes is meant to be slower.
_SLOWEST_BYTES_PER_S = 15e6
# A link counts as the slow one where it carries this share of what the others do, and no gigabit.
_SHARE_OF_OTHERS = 0.25
_GIGABIT_BYTES_PER_S = 1e8


def chosen_by(rule: str, names: Sequence[str]) -> List[str]:
    """Return the interfaces that NCCL_SOCKET_IFNAME means: prefixes, "=" for whole names, "^" for all but."""
    is_exclusion = rule.startswith("^")
    rule = rule[1:] if is_exclusion else rule
    exact = rule.startswith("=")
    patterns = [part for part in rule.lstrip("=").split(",") if part]
    match = [name for name in names if any(name == part or (not exact and name.startswith(part)) for part in patterns)]
    return [name for name in names if name not in match] if is_exclusion else match


def judge_interfaces(world: CheckedWorld) -> Iterator[Finding]:
    """Yield the named interfaces that are not up, or have no address, on some node."""
    for name, origin in _wanted(world).items():
        for state, hosts in hosts_by_value((_state(name, node), node["host"]) for node in world.nodes).items():
            if state:
                yield Finding(
                    "interfaces",
                    BROKEN,
                    f"{origin}: {name.lstrip('=')} {state} on {hosts_in_words(hosts)}",
                    _REMEDY_ALL if len(hosts) == len(world.nodes) else _REMEDY_SOME,
                    tuple(hosts),
                )


_REMEDY_ALL = "name an interface that the nodes have; `ip -brief address` in a job lists them"
_REMEDY_SOME = "exclude the node (--exclude) and tell the site's support"


def _wanted(world: CheckedWorld) -> Dict[str, str]:
    """Return, by interface or rule, who names it."""
    wanted_by_rank: Dict[str, str] = {}
    for rank in world.ranks:
        for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            value = rank["environment"].get(variable, "")
            if value.strip("=") and value.strip("=") != "lo":
                wanted_by_rank.setdefault(value, f"{variable}={value}")
    if len(world.hosts) > 1:
        named = {rule.strip("=") for rule in wanted_by_rank}
        for name in world.expected.get("interfaces", []):
            if name not in named:
                wanted_by_rank["=" + name] = "the site's profile"
    return wanted_by_rank


def _state(rule: str, node: Node) -> str:
    """Return what is wrong with it on this node; empty: nothing."""
    interfaces = node.get("interfaces")
    if interfaces is None:
        return ""
    by_name = {interface["name"]: interface for interface in interfaces}
    chosen_interfaces = [by_name[name] for name in chosen_by(rule, list(by_name)) if name != "lo"]
    if not chosen_interfaces:
        return "is not there"
    if not any(interface.get("up") for interface in chosen_interfaces):
        return "is down"
    if not any(interface.get("up") and interface.get("addresses") for interface in chosen_interfaces):
        return "has no address"
    return ""


def judge_sizes(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether an interface has the same packet size everywhere.

    A larger one than a neighbour's is lost on the way.
    """
    carrying = [(each, node["host"]) for node in world.nodes for each in node.get("interfaces", []) if _carries(each)]
    for name in dict.fromkeys(each["name"] for each, _ in carrying):
        hosts_by_size = hosts_by_value((each.get("mtu", 0), host) for each, host in carrying if each["name"] == name)
        if len(hosts_by_size) > 1:
            yield Finding(
                "interfaces",
                WARNING,
                f"the packet size (MTU) of {name} differs: {values_in_words(dict(sorted(hosts_by_size.items())))}",
                _REMEDY_SOME,
                tuple(odd_hosts(hosts_by_size.values())),
            )


def _carries(interface: Interface) -> bool:
    return bool(interface.get("up") and interface.get("addresses") and interface["name"] != "lo")


def judge_cards(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether every node has the same RDMA cards, and those that count are up."""
    cards = [(card, node["host"]) for node in world.nodes for card in node.get("devices", [])]
    present = hosts_by_value((card["name"], host) for card, host in cards)
    active = hosts_by_value((card["name"], host) for card, host in cards if card.get("state") == "ACTIVE")
    hosts = [node["host"] for node in world.nodes if "devices" in node]
    wanted_cards = set(world.expected.get("hcas", [])) | _named_cards(world)
    for name in sorted(wanted_cards | set(active)):
        hosts_without = [host for host in hosts if host not in active.get(name, [])]
        is_wanted = name in wanted_cards
        if not hosts_without or not (is_wanted or len(active[name]) * 2 >= len(hosts)):
            continue
        state = "is not active" if set(hosts_without) & set(present.get(name, [])) else "is not there"
        yield Finding(
            "RDMA cards",
            BROKEN,
            f"{name} {state} on {hosts_in_words(hosts_without)}",
            _REMEDY_SOME,
            tuple(hosts_without),
        )


def _named_cards(world: CheckedWorld) -> Set[str]:
    names: Set[str] = set()
    for rank in world.ranks:
        value = rank["environment"].get("NCCL_IB_HCA", "")
        if value.startswith("="):
            names |= {part.partition(":")[0] for part in value[1:].split(",") if part}
    return names


def judge_links(world: CheckedWorld) -> Iterator[Finding]:
    """Yield the way from rank 0 to each other node, measured a moment ago."""
    first = world.ranks[0]["host"] if world.ranks else ""
    speeds: Dict[str, float] = {}
    for rank in world.ranks:
        speed = rank.get("link", {}).get("bytes_per_s")
        if speed and rank["host"] != first:
            speeds[rank["host"]] = max(speed, speeds.get(rank["host"], 0.0))
    if not speeds:
        return
    middle = sorted(speeds.values())[len(speeds) // 2]
    slow = [
        host
        for host, speed in speeds.items()
        if speed < _SLOWEST_BYTES_PER_S or (speed < _GIGABIT_BYTES_PER_S and speed < _SHARE_OF_OTHERS * middle)
    ]
    fastest = max((speeds[host] for host in slow), default=0.0)
    if len(speeds) == 1 and slow:
        yield _slow(sorted([first, *slow]), fastest, "the way between them")
    elif len(slow) == len(speeds):
        yield _slow([first], fastest, "every way to it")
    elif slow:
        yield _slow(slow, fastest, f"the way to {first}")


def _slow(hosts: Sequence[str], speed: float, noun: str) -> Finding:
    return Finding(
        "links",
        BROKEN,
        f"{hosts_in_words(hosts)}: {noun} carries {speed / 1e6:.3g} MB/s",
        "exclude the node (--exclude) and tell the site's support; muster bench --parts pairs measures every pair",
        tuple(hosts),
    )


def judge_order(world: CheckedWorld) -> Iterator[Finding]:
    """Judge whether the nodes of one switch or block are neighbours in the order of the ranks, as rings want it."""
    nodes = [node for node in world.nodes if node.get("switches")]
    if len(nodes) < len(world.hosts):  # not told of all
        return
    size = world.expected.get("segment", 0)
    for start in range(0, len(nodes) if size else 0, size or 1):
        segment = nodes[start : start + size]
        if len({node["switches"][-1] for node in segment}) > 1:
            places = ", ".join(f"{node['host']} in {node['switches'][-1]}" for node in segment)
            yield _order(f"{size} neighbouring nodes stand apart: {places}", [node["host"] for node in segment])
    for depth in range(max((len(node["switches"]) for node in nodes), default=0)):
        groups = [(tuple(node["switches"][: depth + 1]), node["host"]) for node in nodes]
        ended = set()
        for (before, _), (group, host) in zip(groups, groups[1:]):
            if group != before:
                ended.add(before)
            if group in ended:
                others = [other for name, other in groups if name == group and other != host]
                evidence = (
                    f"{host} stands under {group[-1]} with {hosts_in_words(others)}, but its ranks do not follow theirs"
                )
                yield _order(evidence, [host])
                return


def _order(evidence: str, hosts: Sequence[str]) -> Finding:
    remedy = "give no order of nodes (-w, --distribution), and ask the site's support how its nodes are numbered"
    return Finding("rank order", WARNING, evidence, remedy, tuple(hosts))
