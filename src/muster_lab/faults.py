"""Real faults on a lab's hosts, and what undoes them. Runs inside the lab's world.

Nothing is written down about a fault: `restore` asks the kernel what holds on a host, and repairs that.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path

from muster.errors import RequestError, SiteError, UnknownName
from muster.runner import checked, run
from muster_lab import build, daemons, host, paths
from muster_lab.spec import LabSpec
from muster_lab.state import read_spec

_FILLER = "muster-lab-filler"


def kill_node(spec: LabSpec, name: str) -> None:
    """Kill the host's first process: all that runs on it ends at once, and its link with it."""
    os.kill(host.first_process(name), signal.SIGKILL)
    _wait(lambda: not host.is_up(name), f"{name} did not end")
    run(["ip", "link", "delete", host.link(spec, name)], env=daemons.ENVIRONMENT)


def cut_link(spec: LabSpec, name: str) -> None:
    """Take the host's port on the bridge down: packets vanish, and nobody is told."""
    _ip("link", "set", host.link(spec, name), "down")


def slow_link(spec: LabSpec, name: str, rate: str) -> None:
    """Put a token bucket on both ends of the host's link."""
    bucket = ["root", "tbf", "rate", rate, "burst", "32kbit", "latency", "400ms"]
    for device, prefix in _ends(spec, name):
        result = run([*prefix, "tc", "qdisc", "replace", "dev", device, *bucket], env=daemons.ENVIRONMENT)
        if not result.ok:
            raise RequestError(
                f"tc cannot slow the link to {rate!r}", hint="write a rate as tc does, for example 10mbit"
            )


def pause_node(spec: LabSpec, name: str) -> None:
    """Stop every process of the host; its kernel part, the network, goes on answering."""
    del spec
    _signal_all(name, signal.SIGSTOP)


def fill_tmp(spec: LabSpec, name: str) -> None:
    """Fill the host's /tmp to the last byte."""
    del spec
    with suppress(OSError), (_tmp(name) / _FILLER).open("ab", buffering=0) as file:
        while True:
            file.write(bytes(PAGESIZE))


def stop_controller() -> None:
    """Stop slurmctld: it takes connections and never answers."""
    os.kill(_controller(), signal.SIGSTOP)


def apply(fault: str, name: str, *details: str) -> None:
    """Do `fault`, one of `FAULTS`, to the host `name`."""
    spec = read_spec()
    if name not in spec.hosts:
        raise UnknownName("host in this lab", name, spec.hosts)
    if not host.is_up(name):
        raise RequestError(f"{name} is down already", hint=f"muster lab fault restore {name}")
    FAULTS[fault](spec, name, *details)


def restore(target: str) -> None:
    """Undo all that holds on `target`: a host, "controller" or "all"; returns when Slurm uses the hosts again."""
    spec = read_spec()
    targets = ["controller", *spec.hosts] if target == "all" else [target]
    for restored_host in targets:
        if restored_host == "controller":
            restore_controller()
        elif restored_host in spec.hosts:
            restore_host(spec, restored_host)
        else:
            raise UnknownName("host in this lab", restored_host, [*spec.hosts, "controller", "all"])
    hosts = set(targets) - {"controller"}
    if controller_answers():
        _wait(
            lambda: hosts <= build.usable_hosts(), f"{target} is repaired, but Slurm does not use it yet", timeout_s=60
        )


def restore_controller() -> None:
    """Let slurmctld and munged go on, or start them again where they have ended."""
    if not _runs("munged"):
        build.start_munge()
    if _runs("slurmctld"):
        os.kill(_controller(), signal.SIGCONT)
        return
    controller = daemons.start("slurmctld", "-D")
    daemons.wait_until(lambda: bool(build.host_states()), controller, "slurmctld", timeout_s=60)


def _runs(program: str) -> bool:
    """Return whether a daemon of the login host runs: the lab has one of each."""
    return any(_name_of(entry) == program for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _name_of(process: Path) -> str | None:
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return None if state in "ZX" else (process / "comm").read_text().strip()
    except OSError:  # it has ended meanwhile
        return None


def restore_host(spec: LabSpec, name: str) -> None:
    """Undo whatever holds on the host."""
    if not host.is_up(name):
        run(["ip", "link", "delete", host.link(spec, name)], env=daemons.ENVIRONMENT)
        host.boot(spec, [name])
        return
    _signal_all(name, signal.SIGCONT)
    _ip("link", "set", host.link(spec, name), "up")
    for device, prefix in _ends(spec, name):
        run([*prefix, "tc", "qdisc", "delete", "dev", device, "root"], env=daemons.ENVIRONMENT)
    (_tmp(name) / _FILLER).unlink(missing_ok=True)


def conditions(spec: LabSpec) -> dict[str, list[str]]:
    """Return, by host, the faults that hold on it now, in the words of `FAULTS`."""
    links = json.loads(checked(run(["ip", "-json", "link", "show", "up"], env=daemons.ENVIRONMENT)).stdout)
    queues = json.loads(checked(run(["tc", "-json", "qdisc", "show"], env=daemons.ENVIRONMENT)).stdout)
    up = {link["ifname"] for link in links if link}
    slow = {queue["dev"] for queue in queues if queue["kind"] == "tbf"}

    def of(name: str) -> list[str]:
        if not host.is_up(name):
            return ["kill-node"]
        checks = (
            ("cut-link", host.link(spec, name) not in up),
            ("slow-link", host.link(spec, name) in slow),
            ("pause-node", _is_stopped(host.first_process(name))),
            ("fill-tmp", (_tmp(name) / _FILLER).exists()),
        )
        return [fault for fault, holds in checks if holds]

    return {name: of(name) for name in spec.hosts}


def controller_answers() -> bool:
    """Return whether slurmctld runs; a stopped one does not answer."""
    try:
        return _runs("slurmctld") and not _is_stopped(_controller())
    except (FileNotFoundError, ProcessLookupError):
        return False


# The faults of one host: what --help calls them, what does them. slow-link takes a rate besides.
FAULTS: dict[str, Callable[..., None]] = {
    "kill-node": kill_node,
    "cut-link": cut_link,
    "slow-link": slow_link,
    "pause-node": pause_node,
    "fill-tmp": fill_tmp,
}


def _ends(spec: LabSpec, name: str) -> Sequence[tuple[str, list[str]]]:
    """Return both ends of a host's link: the device, and the words that get a program to it."""
    enter_words = ["nsenter", f"--net=/proc/{host.first_process(name)}/ns/net"]
    return (host.link(spec, name), []), ("eth0", enter_words)


def _ip(*words: str) -> None:
    checked(run(["ip", *words], env=daemons.ENVIRONMENT))


def _tmp(name: str) -> Path:
    return Path(f"/proc/{host.first_process(name)}/root/tmp")


def _controller() -> int:
    return int(paths.CONTROLLER_PID.read_text())


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _signal_all(name: str, number: signal.Signals) -> None:
    """Signal every process of a host, until no new one turns up."""
    done_pids: set[int] = set()
    while new := set(host.member_processes(name)) - done_pids:
        for pid in new:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        done_pids |= new


def _wait(holds: Callable[[], bool], complaint: str, timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise SiteError(complaint, hint="muster lab status")
        time.sleep(0.02)
