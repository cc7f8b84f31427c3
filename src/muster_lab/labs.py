"""The verbs of a lab as functions: up, down, find, status. What the command line calls."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from muster_lab import build, config, faults, first, internet, requirements, versions, view
from muster_lab.enter import inside
from muster_lab.first import FirstProcess, IdRanges
from muster_lab.memory import memory_mib
from muster_lab.registry import LabRegistry, home_of
from muster_lab.spec import LabSpec
from muster_lab.state import read_spec

Say = Callable[[str], None]


def up(spec: LabSpec, environment: Mapping[str, str], say: Say) -> None:
    """Make the lab; returns when it takes jobs. Whatever goes wrong, nothing of it is left."""
    up_for_now(spec, environment, say).commit()


def up_for_now(spec: LabSpec, environment: Mapping[str, str], say: Say) -> FirstProcess:
    """Make a lab that ends with this process, however that ends; `commit` of its first process lets it stay."""
    ordinary_user = os.geteuid() != 0
    requirements.check_programs(spec, ordinary_user=ordinary_user)
    if spec.internet:
        internet.check_way_out()
    ranges = _id_ranges() if ordinary_user else None
    registry = LabRegistry(environment)
    if registry.note is not None:
        say(registry.note)
    registry.reserve(spec.name)
    try:
        return _make(spec, ranges, registry, environment, say)
    except BaseException:
        registry.forget(spec.name)
        raise


def _make(
    spec: LabSpec, ranges: IdRanges | None, registry: LabRegistry, environment: Mapping[str, str], say: Say
) -> FirstProcess:
    root = None
    if spec.slurm != "system":
        root = versions.prepared_root(spec.slurm, cache=versions.cache_folder(environment), say=say)
    version = build.system_version() if root is None else root.version
    home = str(home_of(environment))
    process = first.begin(ranges)
    try:
        ordinary_user = ranges is not None
        inside(process.pid, lambda: build.build(spec, home, version, root, say, ordinary_user=ordinary_user))
        if spec.internet:
            internet.connect(process.pid)
        registry.record(spec.name, process.pid, version)
    except BaseException:
        process.end()
        raise
    return process


def down(name: str, environment: Mapping[str, str]) -> None:
    """End the lab; returns when all of it is gone."""
    registry = LabRegistry(environment)
    first.end(registry.find(name).pid)
    registry.forget(name)


def fault(name: str, environment: Mapping[str, str], fault_name: str, host: str, *details: str) -> None:
    """Do a fault to a host of the lab."""
    inside(LabRegistry(environment).find(name).pid, partial(faults.apply, fault_name, host, *details))


def stop_controller(name: str, environment: Mapping[str, str]) -> None:
    """Stop the lab's slurmctld."""
    inside(LabRegistry(environment).find(name).pid, faults.stop_controller)


def restore(name: str, environment: Mapping[str, str], target: str) -> None:
    """Undo the faults of a host, of the controller, or all of them."""
    pid = LabRegistry(environment).find(name).pid
    inside(pid, partial(faults.restore, target))
    if inside(pid, lambda: read_spec().internet):
        internet.connect(pid)  # a host that was started again has none


def written_files(name: str, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the files that were written in the lab's copy of the machine's.

    Path and size, None where one was removed.
    """
    written_files: list[dict[str, Any]] = inside(LabRegistry(environment).find(name).pid, view.list_written)
    return written_files


def read_file(name: str, environment: Mapping[str, str], path: str) -> str:
    """Return the text of a file as the lab's login host sees it."""
    text: str = inside(LabRegistry(environment).find(name).pid, Path(path).read_text)
    return text


def _id_ranges() -> IdRanges:
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:  # a user whom this machine does not list
        user = str(uid)
    return IdRanges(*requirements.subordinate_ranges(_text("/etc/subuid"), _text("/etc/subgid"), user, uid))


def _text(file: str) -> str:
    try:
        return Path(file).read_text()
    except FileNotFoundError:
        return ""


def status(name: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what is up, what holds on each host, what is real and what is faked: the keys of `--json`."""
    entry = LabRegistry(environment).find(name)
    answer = inside(entry.pid, _look)
    faked = [*_FAKED, _OPEN if answer["internet"] else _CLOSED]
    answer["memory_mib"] = round(memory_mib(entry.pid), 1)
    return {"name": entry.name, "pid": entry.pid, "slurm": entry.version, **answer, "real": _REAL, "faked": faked}


def _look() -> dict[str, Any]:
    spec = read_spec()
    answers = faults.controller_answers()
    states = build.host_states() if answers else {}
    conditions = faults.conditions(spec)
    return {
        "accounting": spec.accounting,
        "internet": spec.internet,
        "controller": "up" if answers else "stopped",
        "hosts": [
            {
                "name": name,
                "address": config.address(spec, name),
                "state": states.get(name, "unknown"),
                "faults": conditions[name],
            }
            for name in spec.hosts
        ],
    }


_REAL = [
    "slurmctld, one slurmd per host, munge; with --accounting slurmdbd on MariaDB",
    "each host: network namespace and address, host name, processes, /tmp (256 MB), /dev/shm",
]
_FAKED = [
    "GPUs are declared: their device files are /dev/null, so CUDA_VISIBLE_DEVICES is right and nothing computes",
    "CPUs and memory are declared, not owned: all hosts share this machine's",
    "no cgroups and no binding of tasks to CPUs (TaskPlugin=task/none)",
    "the login host sees this machine's /tmp; of it the other hosts see the folder that a command starts in",
    "root in the lab is bound by no rule of Slurm: use --user alice or --user bob for that",
]
_CLOSED = "no host reaches any network but the lab's"
_OPEN = (
    f"every host reaches what this machine reaches, and what listens on its loopback as {internet.MACHINE}; "
    "no machine outside reaches a host"
)
