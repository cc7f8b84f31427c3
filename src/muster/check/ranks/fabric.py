"""The network between the nodes: interfaces, RDMA cards, the speed of each link, and what NCCL made of it. Pure."""

from typing import Dict, Iterator, List, Sequence, Set

from .facts import Interface, Node, World
from .finding import BROKEN, WARNING, Finding, hosts_in_words, odd_hosts

__all__ = ["chosen_by", "judge_cards", "judge_interfaces", "judge_links", "judge_sizes"]

# Not much more than Ethernet of 100 Mbit/s: no network between compute nodes is meant to be slower.
_SLOWEST_BYTES_PER_S = 15e6
# A link counts as the slow one where it carries this share of what the others do, and no gigabit.
_SHARE_OF_OTHERS = 0.25
_GIGABIT_BYTES_PER_S = 1e8


def chosen_by(rule: str, names: Sequence[str]) -> List[str]:
    """Return the interfaces that NCCL_SOCKET_IFNAME means: prefixes, "=" for whole names, "^" for all but."""
    but = rule.startswith("^")
    rule = rule[1:] if but else rule
    exact = rule.startswith("=")
    wanted = [part for part in rule.lstrip("=").split(",") if part]
    match = [name for name in names if any(name == part or (not exact and name.startswith(part)) for part in wanted)]
    return [name for name in names if name not in match] if but else match


def judge_interfaces(world: World) -> Iterator[Finding]:
    """Yield the named interfaces that are not up, or have no address, on some node."""
    for name, origin in _wanted(world).items():
        bad: Dict[str, List[str]] = {}
        for node in world.nodes:
            state = _state(name, node)
            if state:
                bad.setdefault(state, []).append(node["host"])
        for state, hosts in bad.items():
            yield Finding(
                "interfaces",
                BROKEN,
                f"{origin}: {name} {state} on {hosts_in_words(hosts)}",
                _REMEDY_ALL if len(hosts) == len(world.nodes) else _REMEDY_SOME,
                tuple(hosts),
            )


_REMEDY_ALL = "name an interface that the nodes have; `ip -brief address` in a job lists them"
_REMEDY_SOME = "exclude the node (--exclude) and tell the site's support"


def _wanted(world: World) -> Dict[str, str]:
    """Interface or rule → who names it."""
    found: Dict[str, str] = {}
    for rank in world.ranks:
        for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            value = rank["environment"].get(variable, "")
            if value.strip("=") and value.strip("=") != "lo":
                found.setdefault(value, f"{variable}={value}")
    if len(world.hosts) > 1:
        for name in world.expected.get("interfaces", []):
            found.setdefault("=" + name, "the site's profile")
    return found


def _state(rule: str, node: Node) -> str:
    """Return what is wrong with it on this node; empty: nothing."""
    interfaces = node.get("interfaces")
    if interfaces is None:
        return ""
    by_name = {each["name"]: each for each in interfaces}
    chosen = [by_name[name] for name in chosen_by(rule, list(by_name)) if name != "lo"]
    if not chosen:
        return "is not there"
    if not any(each.get("up") for each in chosen):
        return "is down"
    if not any(each.get("up") and each.get("addresses") for each in chosen):
        return "has no address"
    return ""


def judge_sizes(world: World) -> Iterator[Finding]:
    """The same interface with the same packet size everywhere: a larger one than a neighbour's is lost on the way."""
    sizes: Dict[str, Dict[int, List[str]]] = {}
    for node in world.nodes:
        for each in node.get("interfaces", []):
            if _carries(each):
                sizes.setdefault(each["name"], {}).setdefault(each.get("mtu", 0), []).append(node["host"])
    for name, found in sizes.items():
        if len(found) > 1:
            told = "; ".join(f"{size} on {hosts_in_words(hosts)}" for size, hosts in sorted(found.items()))
            fewest = odd_hosts(found.values())
            yield Finding(
                "interfaces", WARNING, f"the packet size (MTU) of {name} differs: {told}", _REMEDY_SOME, tuple(fewest)
            )


def _carries(each: Interface) -> bool:
    return bool(each.get("up") and each.get("addresses") and each["name"] != "lo")


def judge_cards(world: World) -> Iterator[Finding]:
    """The same RDMA cards on every node, those that count all up."""
    present: Dict[str, List[str]] = {}
    active: Dict[str, List[str]] = {}
    for node in world.nodes:
        for card in node.get("devices", []):
            present.setdefault(card["name"], []).append(node["host"])
            if card.get("state") == "ACTIVE":
                active.setdefault(card["name"], []).append(node["host"])
    hosts = [node["host"] for node in world.nodes if "devices" in node]
    wanted = set(world.expected.get("hcas", [])) | _named_cards(world)
    for name in sorted(wanted | set(active)):
        without = [host for host in hosts if host not in active.get(name, [])]
        named = name in wanted
        if not without or not (named or len(active[name]) * 2 >= len(hosts)):
            continue
        state = "is not active" if set(without) & set(present.get(name, [])) else "is not there"
        yield Finding(
            "RDMA cards", BROKEN, f"{name} {state} on {hosts_in_words(without)}", _REMEDY_SOME, tuple(without)
        )


def _named_cards(world: World) -> Set[str]:
    names: Set[str] = set()
    for rank in world.ranks:
        value = rank["environment"].get("NCCL_IB_HCA", "")
        if value.startswith("="):
            names |= {part.partition(":")[0] for part in value[1:].split(",") if part}
    return names


def judge_links(world: World) -> Iterator[Finding]:
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


def _slow(hosts: Sequence[str], speed: float, what: str) -> Finding:
    return Finding(
        "links",
        BROKEN,
        f"{hosts_in_words(hosts)}: {what} carries {speed / 1e6:.3g} MB/s",
        "exclude the node (--exclude) and tell the site's support; muster bench --parts pairs measures every pair",
        tuple(hosts),
    )
