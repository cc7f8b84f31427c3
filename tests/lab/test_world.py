"""Guards a small lab from its inside: what is mounted, who runs, who reaches whom. Its makers run in this process."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.errors import MachineLacks, RequestError, UnknownName
from muster.runner import checked, run
from muster_lab import build, config, faults, first, host, internet, kernel, paths, view
from muster_lab.enter import inside
from muster_lab.requirements import check_programs
from muster_lab.spec import HostGroup, LabSpec

Look = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def world() -> Iterator[Callable[[LabSpec], tuple[Look, list[str]]]]:
    """Makes a lab: what calls a function in it, and what was said while it was made."""
    if os.geteuid() != 0:
        pytest.skip("by design: only root can make root's lab")
    processes = []

    def make(spec: LabSpec) -> tuple[Look, list[str]]:
        try:
            check_programs(spec, ordinary_user=False)
        except MachineLacks as error:
            pytest.skip(error.message)
        process = first.begin(None)
        processes.append(process)

        def build_it() -> list[str]:
            said: list[str] = []
            build.build(spec, "/root", build.system_version(), None, said.append)
            return said

        said = inside(process.pid, build_it)
        if spec.internet:
            for _ in range(2):  # who has a way out keeps it
                internet.connect(process.pid)
        return lambda look: inside(process.pid, look), said

    yield make
    for process in processes:
        process.end()


def _mode(path: Path) -> str:
    return stat.filemode(path.stat().st_mode)


def test_a_lab_has_places_of_its_own(world: Callable[[LabSpec], tuple[Look, list[str]]]) -> None:
    look, said = world(LabSpec(groups=(HostGroup(count=1, gpus=2),), site="x", users=("alice",)))

    def see() -> Any:
        texts = (paths.CONFIG / "slurm.conf", paths.CONFIG / "task_prolog.sh", paths.MUNGE / "munge.key")
        files = (*texts, paths.LOGIN_TEMPORARY, paths.HOMES / "alice", *sorted(paths.DEVICES.iterdir()))
        return {
            "modes": {path.name: _mode(path) for path in files},
            "owner": (paths.HOMES / "alice").stat().st_uid,
            "site": paths.SITE.read_text(),
            "node": os.uname().nodename,
            "users": next(line.partition(":")[0] for line in Path("/etc/passwd").read_text().splitlines()[::-1]),
            "key": (paths.MUNGE / "munge.key").stat().st_size,
            "machine": sorted(path.name for path in paths.MACHINE.iterdir()),
            "processes": sorted(
                Path(f"/proc/{pid}/comm").read_text().strip() for pid in host.member_processes("node1")
            ),
        }

    seen = look(see)
    assert said == ["starting 1 host"]
    assert "slurmd" in seen.pop("processes")[1:]
    assert seen == {
        "modes": {
            "slurm.conf": "-rw-r--r--", "task_prolog.sh": "-rwxr-xr-x", "munge.key": "-r--------",
            "tmp": "drwxrwxrwt", "alice": "drwx------", "nvidia0": "crw-rw-rw-", "nvidia1": "crw-rw-rw-",
        },
        "owner": 60601, "site": "x", "node": "login", "users": "alice", "key": 128, "machine": ["dev", "run", "tmp"],
    }  # fmt: skip


def test_each_fault_holds_on_its_host_until_it_is_undone(world: Callable[[LabSpec], tuple[Look, list[str]]]) -> None:
    spec = LabSpec(groups=(HostGroup(count=2),), tmp_mib=4)
    look, said = world(spec)

    def see() -> None:
        def holds(first: list[str], second: list[str], *, answers: bool = True) -> None:
            expected = {"node1": first, "node2": second}
            faults._wait(lambda: faults.conditions(spec) == expected, f"{faults.conditions(spec)} is not {expected}")
            faults._wait(lambda: faults.controller_answers() is answers, f"that it answers is not {answers}")

        assert build.usable_hosts() == {"node1", "node2"}
        faults.fill_tmp(spec, "node1")
        assert os.statvfs(faults._tmp("node1")).f_bavail == 0
        faults.pause_node(spec, "node2")
        faults.cut_link(spec, "node2")
        faults.slow_link(spec, "node2", "10mbit")
        holds(["fill-tmp"], ["cut-link", "slow-link", "pause-node"])
        for name in spec.hosts:
            faults.restore_host(spec, name)
        holds([], [])
        faults.kill_node(spec, "node1")
        faults.stop_controller()
        holds(["kill-node"], [], answers=False)
        faults.restore("all")
        holds([], [])
        for daemon in ("munged", "slurmctld"):
            for entry in Path("/proc").iterdir():  # of the lab's processes alone
                if entry.name.isdigit() and faults._name_of(entry) == daemon:
                    os.kill(int(entry.name), signal.SIGKILL)
            faults._wait(lambda: not faults._runs(daemon), f"{daemon} did not end")  # noqa: B023  # called here
        faults.restore("controller")
        assert build.host_states()
        for name, fault, word in (("node9", "cut-link", ""), ("node1", "slow-link", "fast"), ("node2", "cut-link", "")):
            if name == "node2":
                faults.kill_node(spec, name)
            with pytest.raises((UnknownName, RequestError)):
                faults.apply(fault, name, *word.split())

    look(see)
    assert said == ["starting 2 hosts"]


def test_what_is_written_in_a_copy_stays_in_the_lab(
    world: Callable[[LabSpec], tuple[Look, list[str]]], tmp_path: Path
) -> None:
    for name in ("old", "gone"):
        (tmp_path / name).write_text("x")
    elsewhere = Path(f"/var/tmp/muster-test-{os.getpid()}")
    look, said = world(LabSpec(groups=(HostGroup(count=1),), copied_for=str(tmp_path)))

    def see() -> Any:
        view.show(tmp_path, [host.first_process("node1")])
        kernel.enter(host.first_process("node1"), kernel.Namespace.mnt)
        (tmp_path / "old").write_text("four")
        (tmp_path / "new").write_text("")
        (tmp_path / "gone").unlink()
        elsewhere.write_text("12345")
        return [sorted(place.read_text() for place in paths.WRITTEN.glob("*/place")), view.list_written()]

    places, written = look(see)
    assert said[0].startswith("what is written goes into a copy-on-write view")
    assert {"/var", str(paths.MACHINE / "tmp")} <= set(places)
    assert not {"/usr", "/etc", "/proc", "/dev", "/bin", "/sbin", "/lib"} & set(places)
    own = {str(tmp_path / "old"): 4, str(tmp_path / "new"): 0, str(tmp_path / "gone"): None, str(elsewhere): 5}
    assert {row["path"]: row["size"] for row in written if row["path"] in own} == own
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old": "x", "gone": "x"}
    assert not elsewhere.exists()


@pytest.mark.parametrize("routed", [True, False])
def test_hosts_reach_each_other_and_the_machine_where_there_is_a_way_out(
    world: Callable[[LabSpec], tuple[Look, list[str]]], monkeypatch: pytest.MonkeyPatch, routed: bool
) -> None:
    if routed and not os.access(internet._TUNNEL, os.R_OK | os.W_OK):
        pytest.skip(f"{internet._TUNNEL} is closed")
    monkeypatch.setattr(config, "MOST_NEIGHBOURS", 1 if routed else 2)
    spec = LabSpec(groups=(HostGroup(count=2),), internet=routed)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        look, _ = world(spec)

        def see() -> Any:
            bridge = json.loads(checked(run(["ip", "-json", "-details", "link", "show", "master", host.BRIDGE])).stdout)
            isolated = [each["linkinfo"]["info_slave_data"]["isolated"] for each in bridge]
            kernel.enter(host.first_process("node1"), kernel.Namespace.net)
            with socket.create_server((config.address(spec, "node1"), 7)):
                kernel.enter(host.first_process("node2"), kernel.Namespace.net)
                socket.create_connection((config.address(spec, "node1"), 7), timeout=20).close()
            if routed:
                socket.create_connection((internet.MACHINE, port), timeout=20).close()
            names = Path("/etc/resolv.conf").read_text()
            return [isolated, names == f"nameserver {internet.RESOLVER}\n", host.first_process("node1")]

        isolated, is_named, _ = look(see)
    assert (isolated, is_named) == ([routed] * 2, routed)
