"""Variables that contradict each other, that no program reads any more, or that do not mean what was intended. Pure.

A rule looks at one rank's variables; its finding is reported once for all ranks that it holds for. The file is long
because it is a list: one rule after the other, each a few lines.
"""

import re
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from muster.rank.finding import BROKEN, WARNING, Finding, hosts_by_value, hosts_in_words, odd_hosts, values_in_words
from muster.rank.vendors import VENDORS

from .cpulist import whole_number
from .facts import CheckedWorld, Node, one_of_each_node

Environment = Mapping[str, str]


class Said(NamedTuple):
    """What a rule found in one rank."""

    status: str
    evidence: str
    remedy: str


class Surroundings(NamedTuple):
    """What a rule may know besides the rank's variables."""

    nodes: int
    fabric: str
    node: Node


Rule = Callable[[Environment, Surroundings], Optional[Said]]

# torch 2.2 took the prefix TORCH_ for what is its own; the old names go with a later version.
OLD_NAMES = (
    "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG",
    "NCCL_DUMP_ON_TIMEOUT",
    "NCCL_ENABLE_TIMING",
    "NCCL_HIGH_PRIORITY",
    "NCCL_TRACE_BUFFER_SIZE",
    "NCCL_USE_COMM_NONBLOCKING",
)

_RDMA = frozenset(("infiniband", "slingshot", "efa", "roce", "omnipath"))
_TCP_PROVIDERS = frozenset(("tcp", "sockets", "udp", "tcp;ofi_rxm"))


def judge_variables(world: CheckedWorld) -> Iterator[Finding]:
    """Yield what the rules say, each sentence once."""
    nodes = {rank["host"]: rank["node"] for rank in world.ranks if "node" in rank}
    hosts_by_message: Dict[Said, List[str]] = {}
    for rank in world.ranks:
        place = Surroundings(len(world.hosts), world.expected.get("fabric", ""), nodes.get(rank["host"], Node()))
        for rule in RULES:
            message = rule(rank["environment"], place)
            if message is not None:
                hosts_by_message.setdefault(message, []).append(rank["host"])
    everywhere = {rank["host"] for rank in world.ranks}
    for message, hosts in hosts_by_message.items():
        some_hosts = tuple(sorted(set(hosts))) if set(hosts) != everywhere else ()
        place_words = f" (on {hosts_in_words(some_hosts)})" if some_hosts else ""
        yield Finding("variables", message.status, message.evidence + place_words, message.remedy, some_hosts)


# --- the rules ------------------------------------------------------------------------------------------------------


def _master_port_in_address(environment: Environment, place: Surroundings) -> Optional[Said]:
    address = environment.get("MASTER_ADDR", "")
    if address.count(":") != 1:
        return None
    return Said(
        BROKEN,
        f"MASTER_ADDR={address} holds a port, so it is not a host's name",
        "set the host alone; the port belongs into MASTER_PORT (--master-port)",
    )


def _master_is_loopback(environment: Environment, place: Surroundings) -> Optional[Said]:
    address = environment.get("MASTER_ADDR", "")
    if place.nodes < 2 or not (address.startswith("127.") or address in ("localhost", "::1")):
        return None
    return Said(
        BROKEN, f"MASTER_ADDR={address}: every node means itself by it", "leave it to Muster, or name rank 0's host"
    )


def _net_on_one_node(environment: Environment, place: Surroundings) -> Optional[Said]:
    net = environment.get("NCCL_NET")
    if not net or place.nodes != 1:
        return None
    return Said(
        WARNING,
        f"NCCL_NET={net} on one node: NCCL then fails where that network is not there, and needs none here",
        "set it for runs over several nodes only (--unset-env NCCL_NET)",
    )


def _quoted_net(environment: Environment, place: Surroundings) -> Optional[Said]:
    net = environment.get("NCCL_NET", "")
    if not (len(net) > 1 and net[0] == net[-1] and net[0] in "'\""):
        return None
    return Said(
        BROKEN,
        f"NCCL_NET={net}: the quotes are part of the value, so it is not the name of a network",
        f"write it without the inner quotes: NCCL_NET={net[1:-1]}",
    )


def _net_and_plugin(environment: Environment, place: Surroundings) -> Optional[Said]:
    net, plugin = environment.get("NCCL_NET"), environment.get("NCCL_NET_PLUGIN")
    if not (net and plugin) or plugin == "none":
        return None
    return Said(
        WARNING,
        f"NCCL_NET={net} and NCCL_NET_PLUGIN={plugin} are both set: the plugin is looked for by the second name first",
        "set one of them: NCCL_NET, which names the network and fails loudly",
    )


def _no_plugin_for_net(environment: Environment, place: Surroundings) -> Optional[Said]:
    net = environment.get("NCCL_NET", "")
    if environment.get("NCCL_NET_PLUGIN") != "none" or net.strip("'\"") in ("", "IB", "Socket"):
        return None
    return Said(
        BROKEN,
        f"NCCL_NET={net} is a plugin's network, but NCCL_NET_PLUGIN=none loads no plugin",
        "unset NCCL_NET_PLUGIN",
    )


def _net_is_socket(environment: Environment, place: Surroundings) -> Optional[Said]:
    settings = [
        f"{name}={environment[name]}"
        for name, bad in (("NCCL_NET", ("Socket",)), ("NCCL_IB_DISABLE", ("1",)))
        if environment.get(name) in bad
    ]
    if not settings or place.nodes < 2:
        return None
    active = [device["name"] for device in place.node.get("devices", []) if device.get("state") == "ACTIVE"]
    if name_is_rdma(place.fabric) or active:
        network = f"the RDMA devices {', '.join(active)}" if active else f"a {place.fabric} fabric"
        if place.fabric in ("slingshot", "efa") and settings == ["NCCL_IB_DISABLE=1"]:
            return None  # its plugin speaks to that fabric, not NCCL's own InfiniBand transport
        return Said(
            BROKEN,
            f"{' and '.join(settings)}: NCCL is told to use TCP, but the nodes have {network}",
            f"take {' and '.join(setting.partition('=')[0] for setting in settings)} away",
        )
    return None


def name_is_rdma(fabric: str) -> bool:
    """Return whether a site's fabric is one for which TCP is a fallback."""
    return fabric in _RDMA


def _provider_is_tcp(environment: Environment, place: Surroundings) -> Optional[Said]:
    provider = environment.get("FI_PROVIDER", "")
    if provider not in _TCP_PROVIDERS or place.nodes < 2 or place.fabric in ("", "ethernet"):
        return None
    return Said(
        BROKEN,
        f"FI_PROVIDER={provider}: libfabric is told to use TCP on a {place.fabric} fabric",
        "unset FI_PROVIDER, or name the fabric's own: cxi (Slingshot), efa, psm2, verbs",
    )


_PROVIDER_OF = {"slingshot": ("cxi",), "efa": ("efa",)}


def _provider_of_another_fabric(environment: Environment, place: Surroundings) -> Optional[Said]:
    provider, right = environment.get("FI_PROVIDER", ""), _PROVIDER_OF.get(place.fabric, ())
    if not provider or not right or provider in _TCP_PROVIDERS or provider.partition(";")[0] in right:
        return None
    if provider.startswith("^"):
        return None
    return Said(
        BROKEN,
        f"FI_PROVIDER={provider} is not the provider of {place.fabric}, which is {right[0]}",
        "unset FI_PROVIDER",
    )


# The vendor whose library is NCCL itself: the version that is known to be wrong is NCCL's.
_NCCL_OWN = next(vendor.kind for vendor in VENDORS if vendor.library == "NCCL")


def _ll128_on_slingshot(environment: Environment, place: Surroundings) -> Optional[Said]:
    """Judge LL128 over Slingshot, where it gives wrong sums.

    On GH200 from NCCL 2.27.3 on by itself, anywhere by name.
    """
    protocols = environment.get("NCCL_PROTO", "").upper()
    if place.fabric != "slingshot" or place.nodes < 2 or protocols.startswith("^LL128"):
        return None
    is_asked = "LL128" in protocols.split(",")
    version = place.node.get("software", {}).get("nccl", "")
    affected = not protocols and _numbers(version) >= (2, 27, 3)
    gpus = {gpu.get("kind") for gpu in place.node.get("gpus", [])}
    if not is_asked and not (affected and _NCCL_OWN in gpus):
        return None
    reason = f"NCCL_PROTO={protocols} asks for LL128" if is_asked else f"NCCL {version} may choose LL128"
    return Said(BROKEN, f"{reason}: over Slingshot it gives wrong sums, without an error", "NCCL_PROTO=^LL128")


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version)[:3])


def _old_torch_names(environment: Environment, place: Surroundings) -> Optional[Said]:
    old = [name for name in OLD_NAMES if name in environment]
    if not old:
        return None
    return Said(
        WARNING,
        f"{', '.join(old)}: torch has read {'it' if len(old) == 1 else 'them'} under another name since 2.2",
        f"set {', '.join('TORCH_' + name for name in old)} instead",
    )


def _old_and_new_differ(environment: Environment, place: Surroundings) -> Optional[Said]:
    old_and_new = [
        name
        for name in OLD_NAMES
        if name in environment and environment.get("TORCH_" + name, environment[name]) != environment[name]
    ]
    if not old_and_new:
        return None
    name = old_and_new[0]
    return Said(
        WARNING,
        f"{name}={environment[name]} and TORCH_{name}={environment['TORCH_' + name]} contradict each other",
        f"unset {name}",
    )


def _errors_not_handled(environment: Environment, place: Surroundings) -> Optional[Said]:
    for name in ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"):
        if environment.get(name) == "0":
            return Said(
                BROKEN,
                f"{name}=0: when one rank dies the others wait for ever in their collective, and the job with them",
                f"unset {name} (the default ends the process)",
            )
    return None


def _ib_patience(environment: Environment, place: Surroundings) -> Optional[Said]:
    text = environment.get("NCCL_IB_TIMEOUT", "")
    exponent, retries = whole_number(text), whole_number(environment.get("NCCL_IB_RETRY_CNT", "7"))
    if exponent is None:
        return None
    retries = 7 if retries is None else retries
    patience = ib_patience_s(exponent, retries)
    if patience is not None and patience <= 600:
        return None
    beyond = " (the card's field ends at 31)" if exponent > 31 else ""
    return Said(
        BROKEN if patience is None else WARNING,
        f"NCCL_IB_TIMEOUT={text}{beyond}: a dead link is given up {patience_in_words(patience)}"
        f" (4.096 µs × 2^{text} × {retries} retries)",
        "20 (the default: 30 s), or 22 (2 min) on a large fabric",
    )


def ib_patience_s(exponent: int, retries: int = 7) -> Optional[float]:
    """Return how long a card tries before it gives a packet up; None: for ever.

    0 is InfiniBand's word for ever, and the
    field has five bits."""
    if exponent == 0 or exponent > 31:
        return None
    return 4.096e-6 * 2.0**exponent * retries


def patience_in_words(seconds: Optional[float]) -> str:
    """Return "after 30 s", "after 8.6 h" or "never"."""
    if seconds is None:
        return "never"
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.95 * length:
            return f"after {seconds / length:.1f} {unit}"
    return f"after {seconds:.0f} s"


def _channels(environment: Environment, place: Surroundings) -> Optional[Said]:
    lowest, highest = environment.get("NCCL_MIN_NCHANNELS", ""), environment.get("NCCL_MAX_NCHANNELS", "")
    low, high = whole_number(lowest), whole_number(highest)
    if low is None or high is None or low <= high:
        return None
    return Said(
        WARNING,
        f"NCCL_MIN_NCHANNELS={lowest} is more than NCCL_MAX_NCHANNELS={highest}",
        "unset one of them: NCCL chooses well by itself",
    )


_SLOW_SWITCHES = {
    "NCCL_P2P_DISABLE": "GPUs of a node then speak through the host's memory",
    "NCCL_SHM_DISABLE": "ranks of a node then speak over the network",
}


def _slow_switches(environment: Environment, place: Surroundings) -> Optional[Said]:
    names = [name for name in _SLOW_SWITCHES if environment.get(name) == "1"]
    if not names:
        return None
    return Said(
        WARNING,
        "; ".join(f"{name}=1: {_SLOW_SWITCHES[name]}" for name in names),
        f"unset {' and '.join(names)} once the fault it was meant for is found",
    )


def _no_gdr(environment: Environment, place: Surroundings) -> Optional[Said]:
    level = environment.get("NCCL_NET_GDR_LEVEL", "")
    if level not in ("0", "LOC") or place.nodes < 2:
        return None
    return Said(
        WARNING,
        f"NCCL_NET_GDR_LEVEL={level}: network cards do not read the GPUs' memory, every byte goes through the host",
        "PHB, or what the site says",
    )


def _gpu_aware_mpi(environment: Environment, place: Surroundings) -> Optional[Said]:
    if environment.get("MPICH_GPU_SUPPORT_ENABLED") != "1":
        return None
    return Said(
        WARNING,
        "MPICH_GPU_SUPPORT_ENABLED=1: MPI and NCCL on the same GPUs can wait for each other",
        "MPICH_GPU_SUPPORT_ENABLED=0 where only NCCL speaks for the GPUs",
    )


def _two_filters(environment: Environment, place: Surroundings) -> Optional[Said]:
    rocr = environment.get("ROCR_VISIBLE_DEVICES")
    for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"):
        inner = environment.get(name)
        if rocr is None or inner is None:
            continue
        count = len([item for item in rocr.split(",") if item])
        beyond = [item for item in inner.split(",") if (whole_number(item) or 0) >= max(count, 1)]
        if beyond:
            return Said(
                BROKEN,
                f"ROCR_VISIBLE_DEVICES={rocr} leaves {count} GPUs, and {name}={inner} counts among those",
                f"set only one of them: unset {name}",
            )
    return None


def _preloaded(environment: Environment, place: Surroundings) -> Optional[Said]:
    missing = place.node.get("shared", {}).get("LD_PRELOAD", "")
    if not missing:
        return None
    return Said(
        WARNING,
        f"LD_PRELOAD names {missing}, which does not exist: every program warns, and the library is missing",
        "unset LD_PRELOAD (--unset-env LD_PRELOAD), or load the module that brings the file",
    )


def _python_home(environment: Environment, place: Surroundings) -> Optional[Said]:
    if not environment.get("PYTHONHOME"):
        return None
    return Said(
        WARNING,
        f"PYTHONHOME={environment['PYTHONHOME']}: every Python takes its library from there, an environment's too",
        "unset PYTHONHOME",
    )


def _interface_is_loopback(environment: Environment, place: Surroundings) -> Optional[Said]:
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        if place.nodes > 1 and environment.get(name, "").strip("=") == "lo":
            return Said(
                BROKEN, f"{name}=lo: that interface leads to no other node", f"unset {name}, or name the fabric's"
            )
    return None


def _numbers_of_ranks(environment: Environment, place: Surroundings) -> Optional[Said]:
    text = environment.get("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "")
    seconds = whole_number(text)
    if seconds is None or seconds >= 60:
        return None
    return Said(
        WARNING,
        f"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC={text}: a rank that is busy for so long (a checkpoint, say) is ended",
        "600 is the default",
    )


RULES: Tuple[Rule, ...] = (
    _master_port_in_address,
    _master_is_loopback,
    _net_on_one_node,
    _quoted_net,
    _net_and_plugin,
    _no_plugin_for_net,
    _net_is_socket,
    _provider_is_tcp,
    _provider_of_another_fabric,
    _ll128_on_slingshot,
    _old_torch_names,
    _old_and_new_differ,
    _errors_not_handled,
    _ib_patience,
    _channels,
    _slow_switches,
    _no_gdr,
    _gpu_aware_mpi,
    _two_filters,
    _preloaded,
    _python_home,
    _interface_is_loopback,
    _numbers_of_ranks,
)

# --- between ranks --------------------------------------------------------------------------------------------------

# What is meant to differ from rank to rank or from node to node.
_OWN = re.compile(
    r"^(RANK|LOCAL_RANK|OMPI_MCA_|SLURM_|OMP_|TMPDIR$|.*_VISIBLE_DEVICES$|UCX_NET_DEVICES$|NCCL_DEBUG_FILE$|NCCL_IB_HCA$)"
)


def differing_variables(world: CheckedWorld) -> Iterator[Finding]:
    """Judge each variable that changes how ranks speak and has several values."""
    names = sorted({name for rank in world.ranks for name in rank["environment"]})
    for name in names:
        if _OWN.match(name) or not name.startswith(
            ("NCCL_", "RCCL_", "TORCH_", "FI_", "MASTER_", "GLOO_", "WORLD_SIZE")
        ):
            continue
        holders = hosts_by_value((rank["environment"].get(name) or "not set", rank["host"]) for rank in world.ranks)
        if len(holders) < 2:
            continue
        yield Finding(
            "variables that differ",
            BROKEN if name.startswith(("MASTER_", "WORLD_SIZE")) else WARNING,
            f"{name} is not the same on all ranks: {values_in_words(holders)}",
            "set it once for the whole job (--env), not in a shell's start files",
            tuple(sorted(set(odd_hosts(holders.values())))),
        )


def gid_index(world: CheckedWorld) -> Iterator[Finding]:
    """Judge NCCL_IB_GID_INDEX against the tables of the cards.

    The entry differs from node to node, the variable cannot.
    """
    for rank in one_of_each_node(world):
        text = rank["environment"].get("NCCL_IB_GID_INDEX", "")
        cards = [card for card in rank.get("node", Node()).get("devices", []) if card.get("layer") == "Ethernet"]
        index = whole_number(text)
        if index is None or not cards:
            continue
        wrong = [card for card in cards if card.get("state") == "ACTIVE" and index not in card.get("roce_v2", [])]
        if wrong:
            right = ", ".join(f"{card['name']}: {card.get('roce_v2') or 'none'}" for card in wrong)
            yield Finding(
                "RoCE address",
                BROKEN,
                f"NCCL_IB_GID_INDEX={text} is not a RoCE v2 entry with an IPv4 address on {rank['host']} ({right})",
                "unset it: NCCL 2.21 and later find the entry; or let the profile's rule choose it on the node",
                (rank["host"],),
            )
