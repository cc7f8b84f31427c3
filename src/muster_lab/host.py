"""A virtual host: namespaces of its own inside the lab's, and a first process that only runs slurmd and reaps.

The pid of a host's first process lies in the lab's state directory; the rest is asked of the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path
from socket import sethostname

from muster.runner import checked, run, start
from muster_lab import config, daemons, kernel, paths
from muster_lab.first import reap
from muster_lab.kernel import Namespace
from muster_lab.mounts import mount_host
from muster_lab.spec import LabSpec

BRIDGE = "lab"


def link(spec: LabSpec, host: str) -> str:
    """Return the host's port on the lab's bridge; its other end is the host's eth0."""
    return f"port{spec.hosts.index(host) + 1}"


def _hardware_address(spec: LabSpec, host: str) -> str:
    """Return the hardware address of a host's eth0, or of the login host's bridge."""
    number = int(IPv4Address(config.address(spec, host)))
    return "02:4d:" + ":".join(f"{byte:02x}" for byte in number.to_bytes(4, "big"))


def join_through_login(spec: LabSpec) -> list[str]:
    """Let the login host pass packets between hosts; returns the words that `ip` has to say to its bridge.

    Hosts that reach each other directly ask for each other's hardware address. The kernel keeps 1,024 answers for all
    namespaces of the machine together, and an ordinary user cannot raise that: large labs lose packets.
    """
    if not config.is_routed(spec):
        return []
    for name, value in (("ip_forward", 1), ("conf/all/send_redirects", 0), ("conf/default/send_redirects", 0)):
        Path("/proc/sys/net/ipv4", name).write_text(f"{value}\n")
    return [f"link set {BRIDGE} address {_hardware_address(spec, config.LOGIN)}"]


def boot(spec: LabSpec, hosts: Sequence[str]) -> None:
    """Start `hosts`: their worlds first, then one call for all links, then what runs in them."""
    go_end, go = os.pipe()
    for host in hosts:
        pid = _make_world(spec, host, go_end)
        _record(host).write_text(f"{pid} {kernel.start_time(pid)}\n")
    os.close(go_end)
    lines = []
    for host in hosts:
        mac = _hardware_address(spec, host)
        lines += [
            f"link add {link(spec, host)} type veth peer name eth0 address {mac} netns {first_process(host)}",
            f"link set {link(spec, host)} master {BRIDGE} up",
        ]
        if config.is_routed(spec):
            lines += [
                f"link set {link(spec, host)} type bridge_slave isolated on",
                f"neigh replace {config.address(spec, host)} lladdr {mac} dev {BRIDGE} nud permanent",
            ]
    ip_batch(lines)
    os.close(go)


def ip_batch(lines: Sequence[str]) -> None:
    """Run many `ip` commands in one process."""
    checked(run(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n", env=daemons.ENVIRONMENT))


def _record(host: str) -> Path:
    return paths.HOSTS / f"{host}.pid"


def known() -> list[str]:
    """Return the hosts of this lab."""
    return [file.stem for file in paths.HOSTS.glob("*.pid")]


def first_process(host: str) -> int:
    """Return the pid of the host's first process, as the lab sees it, whether it lives or not."""
    return int(_record(host).read_text().split()[0])


def is_up(host: str) -> bool:
    """Return whether the host's first process lives."""
    pid, start_ticks = map(int, _record(host).read_text().split())
    return kernel.start_time(pid) == start_ticks


def member_processes(host: str) -> list[int]:
    """Return every process that runs on the host, in the lab's numbers."""
    home = Path(f"/proc/{first_process(host)}/ns/pid").stat().st_ino
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns/pid").stat().st_ino == home:
                    members.append(int(entry.name))
            except OSError:  # it has ended meanwhile
                continue
    return members


def _make_world(spec: LabSpec, host: str, go: int) -> int:
    """Start the first process of a host; it waits until `go` is closed. Returns its pid in the lab."""
    news, news_end = os.pipe()
    starter = kernel.fork(lambda: _starter(spec, host, go, news_end))
    os.close(news_end)
    with os.fdopen(news) as lines:
        pid = lines.readline()
    os.waitpid(starter, 0)
    return int(pid)


def _own_network(spec: LabSpec, host: str) -> list[str]:
    """Return what `ip` has to do on a host."""
    address = config.address(spec, host)
    if not config.is_routed(spec):
        return [f"addr add {address}/{config.NETWORK_BITS} dev eth0", "link set eth0 up"]
    login = config.address(spec, config.LOGIN)
    return [
        f"addr add {address}/{config.NETWORK_BITS} dev eth0 noprefixroute",
        "link set eth0 up",
        f"neigh replace {login} lladdr {_hardware_address(spec, config.LOGIN)} dev eth0 nud permanent",
        f"route add {login} dev eth0 src {address}",
        f"route add {config.NETWORK} via {login} dev eth0 src {address}",
    ]


def _starter(spec: LabSpec, host: str, go: int, news: int) -> int:
    kernel.detach(keep=(go, news), log=paths.LOGS / f"{host}.log")
    kernel.unshare(Namespace.net | Namespace.mnt | Namespace.uts | Namespace.ipc | Namespace.pid)
    pid = kernel.fork(lambda: _first(spec, host, go, news))
    os.write(news, f"{pid}\n".encode())
    return 0


def _first(spec: LabSpec, host: str, go: int, news: int) -> int:
    os.close(news)
    os.read(go, 1)
    os.close(go)
    sethostname(host)
    mount_host(spec.tmp_mib)
    ip_batch(["link set lo up", *_own_network(spec, host)])
    start(["slurmd", "-D"], env=daemons.ENVIRONMENT)
    return reap()
