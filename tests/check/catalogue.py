"""Faults that are made for real on a lab of four hosts, each with what `muster check` has to say of it.

A fault is made on a host by a shell there, by `muster lab fault`, by an option of the launch, or around the command
that is typed. A clock alone is simulated: a host's clock is the machine's.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAULTS", "Fault"]


class Fault(NamedTuple):
    """One fault; how it is made and mended, and what is to be found."""

    name: str
    what: str
    """The check that finds it."""

    says: str
    """Words of its evidence."""

    hosts: tuple[str, ...] = ()
    """The hosts that it must name, and no others."""

    options: tuple[str, ...] = ()
    """Of `muster check`."""

    make: tuple[tuple[str, str], ...] = ()
    """(host, shell) …"""

    mend: tuple[tuple[str, str], ...] = ()
    fault: tuple[str, ...] = ()
    """Words of `muster lab fault`; `restore` mends it."""

    around: str = ""
    """Shell before the command that is typed."""


_HOSTS = "127.0.0.1 localhost\n10.77.0.1 login\n{}\n"
_ALL = {f"node{number}": f"10.77.0.{number + 1}" for number in range(1, 5)}


def _names(host: str, **changed: str | None) -> Fault:
    """That host reads another /etc/hosts."""
    told = {**_ALL, **changed}
    lines = "\\n".join(f"{address} {name}" for name, address in told.items() if address)
    text = _HOSTS.format(lines).replace("\n", "\\n")
    return Fault(
        "",
        "names",
        "",
        make=((host, f"printf '{text}' >/run/hosts && mount --bind /run/hosts /etc/hosts"),),
        mend=((host, "umount /etc/hosts"),),
    )


def _resolver(host: str, order: str) -> Fault:
    """That host asks a name server that never answers: for what its files do not have, or for everything."""
    script = (
        f"sed 's/^hosts:.*/hosts: {order}/' /etc/nsswitch.conf >/run/nsswitch && "
        "printf 'nameserver 10.77.99.99\\n' >/run/resolv && "
        "mount --bind /run/nsswitch /etc/nsswitch.conf && mount --bind /run/resolv /etc/resolv.conf"
    )
    return Fault(
        "", "", "", make=((host, script),), mend=((host, "umount /etc/nsswitch.conf; umount /etc/resolv.conf"),)
    )


def _env(name: str, what: str, says: str, *pairs: str, site: tuple[str, ...] = ()) -> Fault:
    options = [word for pair in pairs for word in ("--env", pair)]
    return Fault(name, what, says, options=(*options, *(word for each in site for word in ("--site-set", each))))


def _own(**variables: str) -> Fault:
    """The ranks of node3 find other variables than their launcher gave them, as a node's start files may bring it."""
    lines = "; ".join(f'os.environ["{name}"] = "{value}"' for name, value in variables.items())
    return Fault(
        "",
        "",
        "",
        ("node3",),
        options=("-g", "2", "--env", "PYTHONPATH=/tmp/own"),
        make=(("node3", f"mkdir /tmp/own && echo 'import os; {lines}' >/tmp/own/sitecustomize.py"),),
        mend=(("node3", "rm -r /tmp/own"),),
    )


_SLINGSHOT = ("fabric.kind=slingshot",)
_INFINIBAND = ("fabric.kind=infiniband",)

FAULTS: tuple[Fault, ...] = (
    # --- links and hosts
    Fault("slow-link", "links", "node3: the way to node1 carries", ("node3",), fault=("slow-link", "node3", "50mbit")),
    Fault(
        "slow-link-of-rank-0", "links", "every way to it carries", ("node1",), fault=("slow-link", "node1", "50mbit")
    ),
    Fault("cut-link", "meeting", "node3", ("node3",), fault=("cut-link", "node3")),
    Fault("paused-host", "meeting", "node4", ("node4",), fault=("pause-node", "node4")),
    Fault(
        "packet-size",
        "interfaces",
        "the packet size (MTU) of eth0 differs",
        ("node3",),
        make=(("node3", "ip link set eth0 mtu 1400"),),
        mend=(("node3", "ip link set eth0 mtu 1500"),),
    ),
    # --- names, port, clocks
    _resolver("node3", "dns")._replace(
        name="resolver-silent", what="names", says="the resolver does not answer on node3", hosts=("node3",)
    ),
    _resolver("node3", "files dns")._replace(
        name="reverse-silent",
        what="reverse names",
        says="the name of an address takes",
        hosts=("node3",),
        make=_names("node3").make + _resolver("node3", "files dns").make,  # a lab's own file has the names of ::ffff:…
        mend=_names("node3").mend + _resolver("node3", "files dns").mend,
    ),
    _names("node3", node3="127.0.1.1")._replace(
        name="name-only-local", says="node3 knows only a loopback address", hosts=("node3",)
    ),
    _names("node3", node1=None)._replace(
        name="name-unknown", says="node3 does not know the name node1", hosts=("node3",)
    ),
    _names("node3", node2="10.77.0.77")._replace(
        name="name-leads-elsewhere", says="node2 has different addresses", hosts=("node3",)
    ),
    Fault(
        "port-taken",
        "start",
        "port 24680 of node1 is taken by another program",
        options=("--master-port", "24680"),
        make=(("node1", "python3 -m http.server 24680 >/dev/null 2>&1 & echo $! >/run/squatter"),),
        mend=(("node1", "kill $(cat /run/squatter)"),),
    ),
    Fault(
        "clock-ahead", "clocks", "node2 is 5.0 s ahead", ("node2",), ("--env", "MUSTER_CHECK_SIMULATE=clock:node2:5")
    ),
    Fault(
        "clock-hours-behind",
        "clocks",
        "node2 is 7200.0 s behind",
        ("node2",),
        ("--env", "MUSTER_CHECK_SIMULATE=clock:node2:-7200"),
    ),
    Fault(
        "clock-of-rank-0",
        "clocks",
        "node1 is 90.0 s ahead",
        ("node1",),
        ("--env", "MUSTER_CHECK_SIMULATE=clock:node1:90"),
    ),
    # --- binding
    Fault(
        "one-core-mask",
        "binding",
        "all 2 ranks of node3 run on one core (CPUs 0)",
        ("node3",),
        make=(("node3", "taskset -apc 0 $(pidof -s slurmd)"),),
        mend=(("node3", "taskset -apc 0-63 $(pidof -s slurmd)"),),
    ),
    _env("too-many-threads", "threads", "OMP_NUM_THREADS", "OMP_NUM_THREADS=64"),
    # --- room, limits, what is left over
    Fault("full-tmp", "space", "/tmp on node2 has room for 0 MiB", ("node2",), fault=("fill-tmp", "node2")),
    Fault(
        "full-shared-memory",
        "space",
        "/dev/shm on node2 has room for",
        ("node2",),
        make=(("node2", "mount -o remount,size=20m /dev/shm"),),
        mend=(("node2", "mount -o remount,size=50% /dev/shm"),),
    ),
    Fault(
        "no-files-left",
        "space",
        "/tmp on node2 has room for",
        ("node2",),
        make=(("node2", "mount -o remount,nr_inodes=60 /tmp"),),
        mend=(("node2", "mount -o remount,nr_inodes=60000 /tmp"),),
    ),
    Fault("few-open-files", "limits", "a process may open 200 files", around="ulimit -n 200;"),
    Fault("little-address-space", "limits", "a process may address 16384 MiB", around="ulimit -v 16777216;"),
    Fault("small-stacks", "limits", "a thread's stack is 512 KiB", around="ulimit -s 512;"),
    Fault(
        "shared-memory-left",
        "leftovers",
        "/dev/shm/nccl-aB12cd on node3",
        ("node3",),
        make=(("node3", "touch -d '1 hour ago' /dev/shm/nccl-aB12cd"),),
        mend=(("node3", "rm /dev/shm/nccl-aB12cd"),),
    ),
    Fault(
        "lock-left",
        "leftovers",
        "lock on node3",
        ("node3",),
        options=("--env", "TORCH_EXTENSIONS_DIR=/tmp/extensions"),
        make=(("node3", "mkdir -p /tmp/extensions/x && touch -d '1 hour ago' /tmp/extensions/x/lock"),),
        mend=(("node3", "rm -r /tmp/extensions"),),
    ),
    Fault(
        "directory-of-its-own",
        "shared directory",
        "another one, or not there, on node3",
        options=("--chdir", "{shared}/here"),
        make=tuple((host, "mkdir -p /run/own && mount --bind /run/own {shared}/here") for host in ("node3",)),
        mend=(("node3", "umount {shared}/here"),),
        hosts=("node3",),
    ),
    # --- versions that differ
    Fault(
        "torch-differs",
        "versions",
        "torch differs",
        ("node3",),
        options=("--env", "PYTHONPATH=/tmp/site-packages"),
        make=(("node3", "mkdir -p /tmp/site-packages/torch-2.0.1.dist-info"),),
        mend=(("node3", "rm -r /tmp/site-packages"),),
    ),
    Fault(
        "nccl-differs",
        "versions",
        "nccl differs",
        ("node3",),
        options=("--env", "PYTHONPATH=/tmp/site-packages"),
        make=(("node3", "mkdir -p /tmp/site-packages/nvidia_nccl_cu12-2.20.5.dist-info"),),
        mend=(("node3", "rm -r /tmp/site-packages"),),
    ),
    # --- devices
    _own(CUDA_VISIBLE_DEVICES="0")._replace(
        name="two-ranks-on-one-gpu", what="devices", says="ranks 4 and 5 on node3 use the same GPU (0)"
    ),
    _own(CUDA_VISIBLE_DEVICES="")._replace(name="no-gpu-visible", what="devices", says="rank 4 on node3 sees no GPU"),
    # --- variables
    _own(NCCL_ALGO="Ring")._replace(
        name="variable-on-one-host", what="variables that differ", says="NCCL_ALGO is not the same on all ranks"
    ),
    _env("tcp-on-purpose", "variables", "NCCL is told to use TCP", "NCCL_NET=Socket", site=_INFINIBAND),
    _env("infiniband-off", "variables", "NCCL is told to use TCP", "NCCL_IB_DISABLE=1", site=_INFINIBAND),
    _env("libfabric-over-tcp", "variables", "libfabric is told to use TCP", "FI_PROVIDER=tcp", site=_SLINGSHOT),
    _env("anothers-provider", "variables", "is not the provider of slingshot", "FI_PROVIDER=efa", site=_SLINGSHOT),
    _env("ll128", "variables", "wrong sums", "NCCL_PROTO=LL128,Simple", site=_SLINGSHOT),
    _env("quoted-network", "variables", "the quotes are part of the value", 'NCCL_NET="AWS Libfabric"'),
    _env("plugin-not-loaded", "variables", "loads no plugin", "NCCL_NET=AWS Libfabric", "NCCL_NET_PLUGIN=none"),
    _env("old-name", "variables", "under another name since 2.2", "NCCL_BLOCKING_WAIT=1"),
    _env("errors-ignored", "variables", "wait for ever", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0"),
    _env("never-given-up", "variables", "given up never", "NCCL_IB_TIMEOUT=100"),
    _env("given-up-after-hours", "variables", "after 8.6 h", "NCCL_IB_TIMEOUT=30"),
    _env("channels", "variables", "is more than NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS=8", "NCCL_MAX_NCHANNELS=2"),
    _env("peer-access-off", "variables", "speak through the host's memory", "NCCL_P2P_DISABLE=1"),
    _env("shared-memory-off", "variables", "speak over the network", "NCCL_SHM_DISABLE=1"),
    _env("no-gpu-direct", "variables", "every byte goes through the host", "NCCL_NET_GDR_LEVEL=LOC"),
    _env("mpi-on-the-gpus", "variables", "can wait for each other", "MPICH_GPU_SUPPORT_ENABLED=1"),
    _env("gloo-on-loopback", "variables", "leads to no other node", "GLOO_SOCKET_IFNAME=lo"),
    _env("no-such-interface", "interfaces", "hsn0 is not there", "NCCL_SOCKET_IFNAME=hsn0"),
    _env("preloaded-in-vain", "variables", "LD_PRELOAD names /opt/gone.so", "LD_PRELOAD=/opt/gone.so"),
    _env("short-heartbeat", "variables", "is ended", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=5"),
    Fault("network-on-one-node", "variables", "on one node", options=("-N", "1", "--env", "NCCL_NET=IB")),
    # --- the launch itself
    Fault("python-broken", "start", "", options=("--env", "PYTHONHOME=/nowhere")),
    Fault("a-port-in-the-address", "start", "holds a port", options=("--master-addr", "node1:29500")),
)
