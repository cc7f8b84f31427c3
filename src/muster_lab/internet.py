"""A way out of the lab, where `lab up --internet` asks for one: slirp4netns, one process for each host.

It needs no root, no bridge to the machine's network and no rule of a firewall: what a host sends is sent on by an
ordinary process of the caller's. That process lives among the lab's, so it ends with the lab, but in the machine's
own network; the other half of it lies in the host's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from muster.errors import MachineLacks, SiteError
from muster.runner import start
from muster_lab import config, daemons, host, kernel, paths
from muster_lab.enter import inside
from muster_lab.kernel import MountFlag, Namespace
from muster_lab.requirements import as_root
from muster_lab.state import read_spec

# slirp4netns's own numbers: under the first a host reaches what listens on this machine's loopback.
MACHINE = "10.0.2.2"
RESOLVER = "10.0.2.3"

_TUNNEL = Path("/dev/net/tun")
_EVERYTHING_BUT_NETWORK = ~Namespace.net


def check_way_out() -> None:
    """Raise `MachineLacks` for what `connect` would miss."""
    if not os.access(_TUNNEL, os.R_OK | os.W_OK):
        raise MachineLacks(
            str(_TUNNEL),
            f"{_TUNNEL} is closed to you, but a lab's way out goes through it",
            hint=as_root(["chmod", "666", str(_TUNNEL)]),
        )


def names_through(text: str) -> None:
    """Let `text` stand where /etc/resolv.conf stands, also where that is a link into the machine's own /run."""
    target = Path("/etc/resolv.conf").resolve()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    own_file = paths.ETC / f"resolv.conf.{os.getpid()}"
    own_file.write_text(text)
    kernel.mount(own_file, target, flags=MountFlag.bind)


def connect(pid: int) -> None:
    """Give every host of the lab whose first process is `pid` a way out; one that has it keeps it."""
    resolver_file = Path("/etc/resolv.conf")
    resolver = resolver_file.read_text() if resolver_file.exists() else ""
    inside(pid, partial(_connect, resolver), kinds=_EVERYTHING_BUT_NETWORK)


def _connect(resolver: str) -> None:
    """Connect the hosts, among the lab's processes and in the machine's network."""
    kernel.unshare(Namespace.mnt)
    names_through(resolver)  # slirp4netns asks whom the machine asks
    spec = read_spec()
    for name in (config.LOGIN, *spec.hosts):
        first = 1 if name == config.LOGIN else host.first_process(name)
        record = paths.HOSTS / f"{name}.internet"
        pids = dict(_numbers(record))
        if first in pids:
            continue
        for old in pids.values():  # of a host that was ended and started again
            with suppress(ProcessLookupError):
                os.kill(old, signal.SIGKILL)
        record.write_text(f"{first} {_start(name, first)}\n")


def _numbers(record: Path) -> Mapping[int, int]:
    try:
        first, own_pid = map(int, record.read_text().split())
    except FileNotFoundError:
        return {}
    return {first: own_pid}


def _start(name: str, first: int) -> int:
    """Start slirp4netns for one host; return when the host can send."""
    ready, ready_end = os.pipe()
    words = ["slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={ready_end}", str(first), "tap0"]
    with (paths.LOGS / f"slirp4netns.{name}").open("ab") as log:
        process = start(
            words, env=daemons.ENVIRONMENT, stdout=log, stderr=log, own_group=True, pass_fds=(ready_end,)
        )  # fmt: skip
    os.close(ready_end)
    with os.fdopen(ready, "rb") as news:
        answer = news.read(1)
    if answer != b"1":
        hint = daemons.log_tail(f"slirp4netns.{name}")
        raise SiteError(f"slirp4netns gives {name} no way out", hint=hint)
    return process.pid
