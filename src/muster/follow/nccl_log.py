"""What NCCL's or RCCL's own log says of the network that it chose. Text in, values out; pure.

Two lines can be of two processes, so what is found is kept for each of them: HOST:PID, as the library writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from muster.rank.finding import BROKEN, WARNING, Finding, hosts_in_words, values_in_words


class Transport(msgspec.Struct, frozen=True):
    """What one process says, or several that say the same."""

    version: str = ""
    """Of NCCL or RCCL."""

    network: str = ""
    """IB, Socket, AWS Libfabric, … : what the ranks of different nodes speak over."""

    plugin: str = ""
    """The plugin that brings the network, with its version; empty: NCCL's own."""

    provider: str = ""
    """libfabric's, where it is used: cxi, efa, tcp …"""

    cards: tuple[str, ...] = ()
    gpu_direct: bool | None = None
    """Whether cards read GPU memory; None: no connection between nodes was seen."""

    channels: int = 0
    nodes: int | None = None
    ranks: int | None = None
    algorithms: tuple[str, ...] = ()
    """What was connected: rings, trees."""

    by_network: bool = False
    """A connection over the network was seen."""


class _Process:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.cards: tuple[str, ...] = ()
        self.direct = self.indirect = False
        self.channels: set[str] = set()
        self.algorithms: list[str] = []

    def transport(self) -> Transport:
        values = self.values
        direction = self.direct or self.indirect
        return Transport(
            version=values.get("version", ""),
            network=values.get("network", ""),
            plugin=values.get("plugin", ""),
            provider=values.get("provider", ""),
            cards=self.cards,
            gpu_direct=self.direct if direction else None,
            channels=len(self.channels),
            nodes=int(values["nodes"]) if "nodes" in values else None,
            ranks=int(values["ranks"]) if "ranks" in values else None,
            algorithms=tuple(dict.fromkeys(self.algorithms)),
            by_network=direction,
        )


# HOST:PID:TID [GPU] NCCL INFO …; RCCL writes the same. With --label, or in a shortened quotation, less stands before.
_HEAD = re.compile(r"(?:(?P<host>[\w.-]+):(?P<pid>[0-9]+):[0-9]+ \[[0-9]+\] )?NCCL (?:INFO|WARN|VERSION) (?P<said>.*)$")
_VERSION = re.compile(r"\b(?P<what>R?NCCL) version *:? *(?P<version>[0-9]+\.[0-9]+[\w.+-]*)")
_FIELDS = (
    ("network", re.compile(r"^Using network (?P<value>.+?)\s*$")),
    ("plugin", re.compile(r"^NET/OFI (?:Using|Initializing) (?P<value>aws-ofi-(?:nccl|rccl) [\w.+-]+)")),
    ("plugin", re.compile(r"^NET/Plugin: Loaded net plugin (?P<value>\S.*?) \(v[0-9]+\)")),
    ("provider", re.compile(r"^NET/OFI Selected [Pp]rovider is (?P<value>[\w;]+)")),
    ("nodes", re.compile(r"\bnNodes (?P<value>[0-9]{1,9})\b")),
    ("ranks", re.compile(r"\bn[rR]anks (?P<value>[0-9]{1,9})\b")),
)
_CARDS = re.compile(r"^NET/(?:IB|IBP|Socket) : Using (?P<cards>\[0\].*)")
_CARD = re.compile(r"\[[0-9]+\]([\w.-]+)(?::[0-9]+/(\w+))?")
_CHANNEL = re.compile(r"^Channel (?P<number>[0-9]+)(?:/[0-9]+)? : .*?via NET/(?P<network>[^/]+?)\s*(?P<rest>/.*)?$")
_COUNTED = re.compile(r"^Channel (?P<number>[0-9]+)/(?P<count>[0-9]+) :(?! .*via)")
_CONNECTED = re.compile(r"^Connected all (?P<what>rings|trees)")


def _version_in(text: str) -> str:
    version = _VERSION.search(text)
    return f"{version['what']} {version['version']}" if version else ""


class NcclLog:
    """Reads a log a line at a time; forgets nothing that counts, keeps no lines."""

    def __init__(self) -> None:
        self._processes: dict[tuple[str, str], _Process] = {}
        self._version = ""

    def take(self, line: str) -> None:
        """Take one line; any that is not of the library is passed over."""
        head = _HEAD.search(line)
        if head is not None:
            place = (head["host"] or "", head["pid"] or "")
            self._said(self._processes.setdefault(place, _Process()), head["said"])
        self._version = self._version or _version_in(line)

    def _said(self, process: _Process, message: str) -> None:
        process.values["version"] = process.values.get("version") or _version_in(message)
        for name, pattern in _FIELDS:
            match = pattern.search(message)
            if match is not None:
                process.values.setdefault(name, match["value"])
        if match := _CARDS.match(message):
            process.cards = tuple(
                f"{name} ({layer})" if layer else name
                for name, layer in _CARD.findall(match["cards"].partition(";")[0])
            )
        if match := _CHANNEL.match(message):
            process.channels.add(match["number"])
            if "GDRDMA" in (match["rest"] or ""):
                process.direct = True
            else:
                process.indirect = True
            process.values.setdefault("network", {"OFI": "AWS Libfabric"}.get(match["network"], match["network"]))
        elif match := _COUNTED.match(message):
            process.channels.add(match["number"])
        if match := _CONNECTED.match(message):
            process.algorithms.append(match["what"])

    def transports(self) -> dict[Transport, list[str]]:
        """Return what was chosen → the hosts that chose it; a process that only spoke of other things is left out."""
        hosts_by_transport: dict[Transport, list[str]] = {}
        for (host, _), process in self._processes.items():
            transport = process.transport()
            if transport.network or transport.provider or transport.plugin:
                whole = msgspec.structs.replace(transport, version=transport.version or self._version)
                hosts = hosts_by_transport.setdefault(whole, [])
                hosts += [host] if host not in hosts else []
        return hosts_by_transport


def judge_transports(transports: dict[Transport, list[str]]) -> Iterator[Finding]:
    """Judge TCP beside a better network, networks that differ, and cards that do not read the GPUs' memory."""
    all_hosts = {host for hosts in transports.values() for host in hosts}
    networks: dict[str, list[str]] = {}
    for transport, hosts in transports.items():
        if transport.network:
            networks.setdefault(transport.network, []).extend(hosts)
        if transport.by_network or (transport.nodes or len(all_hosts)) > 1:
            yield from _judge(transport, hosts)
    if len(networks) > 1:
        yield Finding(
            "transport", BROKEN, f"the nodes chose different networks: {values_in_words(networks)}", _SAME, ()
        )


_OVER_TCP = frozenset({"tcp", "sockets", "udp"})
_SAME = "the same environment, image and modules on every node; NCCL_NET with the network's name makes it fail loudly"


def _judge(transport: Transport, hosts: Sequence[str]) -> Iterator[Finding]:
    place = f" (on {hosts_in_words(hosts)})" if any(hosts) else ""
    # A provider may be a stack: "tcp;ofi_rxm".
    if transport.network == "Socket" or not _OVER_TCP.isdisjoint(transport.provider.split(";")):
        protocol = "TCP" if transport.network == "Socket" else f"libfabric's {transport.provider}"
        yield Finding(
            "transport",
            BROKEN,
            f"the ranks of different nodes speak over {protocol}, not over the fabric{place}",
            "bring the fabric's plugin into the environment or image (muster run does, by the site's profile); "
            "NCCL_NET with its name makes a start without it fail",
            tuple(filter(None, hosts)),
        )
    elif transport.gpu_direct is False:
        yield Finding(
            "transport",
            WARNING,
            f"{transport.network} without GPU-direct: every byte goes through the host's memory{place}",
            "NCCL_NET_GDR_LEVEL as the site says (PHB); the driver's peer memory module",
            tuple(filter(None, hosts)),
        )
