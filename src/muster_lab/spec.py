"""What a lab is to be, as a value: groups of hosts, partitions, accounts and rules. Plain data, checked once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.errors import RequestError, UnknownName
from muster.units import format_walltime, parse_memory_mib, parse_walltime_s
from muster_lab.words import SLURM_VERSIONS

# One bridge has at most 1,023 ports (BR_MAX_PORTS), one of them is the login host's own.
MOST_HOSTS = 1000

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HostGroup:
    """Hosts of one kind: `prefix`1 … `prefix`N, the number written with at least `digits` digits."""

    count: int = 4
    prefix: str = "node"
    digits: int = 1
    cpus: int = 8
    gpus: int = 4
    gpu_type: str | None = None
    memory_mib: int = 16 * 1024
    threads_per_core: int = 1
    features: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{number:0{self.digits}}" for number in range(1, self.count + 1))


@dataclass(frozen=True)
class LabPartition:
    """A partition: the hosts in it (none named: all) and Slurm's own options, as slurm.conf spells them."""

    name: str
    hosts: tuple[str, ...] = ()
    default: bool = False
    options: Options = ()


@dataclass(frozen=True)
class Qos:
    """A quality of service: sacctmgr's own options (MaxWall, MaxTRESPerUser, Flags, …)."""

    name: str
    options: Options = ()


@dataclass(frozen=True)
class Account:
    """An account, and the lab's ordinary users who may charge it."""

    name: str
    users: tuple[str, ...] = ("alice", "bob")
    options: Options = ()


@dataclass(frozen=True)
class LabSpec:
    """Everything a lab is made from: same value, same cluster."""

    name: str = "lab"
    groups: tuple[HostGroup, ...] = (HostGroup(),)
    partitions: tuple[LabPartition, ...] = (LabPartition("main", default=True),)
    accounting: bool = False
    slurm: str = "system"
    cluster: str = "lab"
    users: tuple[str, ...] = ("alice", "bob")
    accounts: tuple[Account, ...] = (Account("lab"),)
    qos: tuple[Qos, ...] = ()
    job_submit_lua: str | None = None
    tmp_mib: int = 256
    """Of each host's own /tmp."""

    options: Options = ()
    """Further lines of slurm.conf; they stand last, so they win."""
    topology: tuple[str, int] | None = None
    """tree or block, and how many hosts stand under one switch, or in one block."""

    internet: bool = False
    """Whether its hosts reach what this machine reaches."""

    cuts_gpus: bool = False
    """srun shows each task one GPU, unless CUDA_VISIBLE_DEVICES is set before it."""

    site: str | None = None
    """The site that it is like."""

    copied_for: str | None = None
    """The folder of a rehearsal: the machine's files are shown as a copy that can be written."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.slurm not in SLURM_VERSIONS:
            raise UnknownName("Slurm version for a lab", self.slurm, SLURM_VERSIONS)
        if not 1 <= self.tmp_mib <= 1 << 20:
            raise RequestError(
                f"a lab's host has 1 MiB to 1 TiB of /tmp, not {self.tmp_mib} MiB", hint="for example --tmp 1G"
            )
        _check_groups(self.groups)
        _check_partitions(self.partitions, self.hosts)
        _no_doubles("lab user", self.users)
        if self.topology is not None and self.topology[0] == "block" and self.slurm == "system":
            raise RequestError(
                "topology/block came with Slurm 23.11, and a lab with it needs a version that is known",
                hint="--slurm 24.11",
            )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names of all virtual hosts, in order; the login host is not one of them."""
        return tuple(name for group in self.groups for name in group.names)


def parse_topology(text: str) -> tuple[str, int]:
    """Read KIND:N, for example block:4."""
    match = re.fullmatch(r"(tree|block):([1-9][0-9]{0,3})", text)
    if match is None:
        raise RequestError(f"{text} is not of the form tree:N or block:N", hint="for example block:4")
    return match[1], int(match[2])


def check_name(name: str) -> str:
    """Return `name` where it can name a lab: it becomes a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise RequestError(
            f"{name!r} cannot name a lab", hint="letters, digits, '.', '_' and '-', 64 at most, for example --name demo"
        )
    return name


def _check_groups(groups: Sequence[HostGroup]) -> None:
    count = sum(group.count for group in groups)
    if not all(group.count > 0 for group in groups) or not 1 <= count <= MOST_HOSTS:
        raise RequestError(f"a lab has 1 to {MOST_HOSTS} hosts, not {count}", hint="for example -N 4")
    for group in groups:
        _check_group(group)
    _no_doubles("host", ["login", *(name for group in groups for name in group.names)])


_HOST_EXAMPLE = "for example --cpus-per-node 8 --gpus-per-node 4 --memory 16G"


def _check_group(group: HostGroup) -> None:
    limits = (
        ("CPUs", group.cpus, 1, 4096),
        ("GPUs", group.gpus, 0, 256),
        ("MiB of memory", group.memory_mib, 1, 1 << 40),
        ("threads per core", group.threads_per_core, 1, 8),
    )
    for noun, value, lowest, highest in limits:
        if not lowest <= value <= highest:
            raise RequestError(f"a lab's host has {lowest} to {highest} {noun}, not {value}", hint=_HOST_EXAMPLE)
    if group.cpus % group.threads_per_core:
        raise RequestError(
            f"{group.cpus} CPUs cannot be divided into {group.threads_per_core} threads per core", hint=_HOST_EXAMPLE
        )
    for noun, word in (("host name", group.prefix), ("GPU type", group.gpu_type or "gpu")):
        if not re.fullmatch(r"[A-Za-z](?:[A-Za-z0-9._-]{0,40}[A-Za-z0-9])?", word):
            raise RequestError(
                f"{word!r} cannot be a {noun}", hint="a letter, then letters, digits, '.', '_' or '-', for example a100"
            )


def _check_partitions(partitions: Sequence[LabPartition], hosts: Sequence[str]) -> None:
    if not partitions:
        raise RequestError("a lab needs a partition", hint="for example --partition debug:time=30,default")
    _no_doubles("partition", [partition.name for partition in partitions])
    if sum(partition.default for partition in partitions) > 1:
        raise RequestError("two partitions cannot both be the default", hint="write 'default' in one of them")
    known_hosts = set(hosts)
    for partition in partitions:
        for host in partition.hosts:
            if host not in known_hosts:
                raise UnknownName(f"host for partition {partition.name}", host, hosts)


def _no_doubles(kind: str, names: Iterable[str]) -> None:
    seen_names: set[str] = set()
    for name in names:
        if name in seen_names:
            raise RequestError(f"the {kind} {name!r} is there twice", hint="names differ within a lab")
        seen_names.add(name)


def walltime_in_slurm(text: str) -> str:
    """Return a time limit as the files of Slurm have it."""
    seconds = parse_walltime_s(text)
    return "UNLIMITED" if seconds is None else format_walltime(seconds)


def _count(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise RequestError(f"{text!r} is not a count", hint="a number from 1")
    return text


def _names(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+(\+[A-Za-z0-9_.-]+)*", text):
        raise RequestError(f"{text!r} is not a list of names", hint="names with + between them, for example a+b")
    return text.replace("+", ",")


# What --partition calls it, how slurm.conf spells it, how its value is read.
_PARTITION_OPTIONS = {
    "time": ("MaxTime", walltime_in_slurm),
    "default-time": ("DefaultTime", walltime_in_slurm),
    "max-nodes": ("MaxNodes", _count),
    "min-nodes": ("MinNodes", _count),
    "accounts": ("AllowAccounts", _names),
    "qos": ("AllowQos", _names),
    "memory-per-cpu": ("DefMemPerCPU", lambda text: str(parse_memory_mib(text))),
}


def parse_partition(text: str, hosts: Sequence[str]) -> LabPartition:
    """Return the partition of one `--partition` word, by words.PARTITION_GRAMMAR."""
    name, _, rest = text.partition(":")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name) or name.upper() == "DEFAULT":
        raise RequestError(f"{name!r} cannot name a partition", hint="for example --partition debug:nodes=2,time=30")
    default, members = False, tuple(hosts)
    options: list[tuple[str, str]] = []
    for word in filter(None, rest.split(",")):
        key, equals, value = word.partition("=")
        if word == "default":
            default = True
        elif key == "nodes" and equals:
            count = int(_count(value))
            if count > len(hosts):
                raise RequestError(
                    f"partition {name} wants {count} hosts of {len(hosts)}", hint="raise -N, or lower nodes="
                )
            members = tuple(hosts[:count])
        elif key in _PARTITION_OPTIONS and equals:
            spelling, read = _PARTITION_OPTIONS[key]
            options.append((spelling, read(value)))
        else:
            raise UnknownName(
                "partition option", word, ["default", "nodes=", *(f"{key}=" for key in _PARTITION_OPTIONS)]
            )
    return LabPartition(name, members, default, tuple(options))
