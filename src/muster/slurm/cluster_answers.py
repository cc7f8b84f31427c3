"""What scontrol and sacctmgr answer of a cluster, read into one value: any version from 17.11 on. Pure.

Both clients take several commands in one start, on standard input. Nodes are read one by one: sinfo groups 5,000 nodes
of 60 partitions in seconds, scontrol prints them in a tenth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from muster.rank.errors import HostlistError
from muster.rank.hostlist import expand
from muster.slurm.cluster import CONFIGURATION, Limits, QosLimit, read_limits
from muster.slurm.cluster_facts import Association, ClusterFacts, KindFacts, Names, PartitionFacts, Reservation
from muster.slurm.question import Question
from muster.units import known_walltime_s, whole_number


def read_controller(stdout: str) -> ClusterFacts:
    """Return all that `scontrol` printed for its commands; without a ClusterName, the name is empty."""
    text = _without_prompts(stdout, "scontrol")
    lines = text.splitlines()
    config = CONFIGURATION.read(
        "\n".join(line for line in lines if not line.startswith(("PartitionName=", "NodeName=", "Reserv")))
    )
    moment = re.search(r"(?m)^Configuration data as of (\S+)$", text)
    reserved = dict(_reservations(lines))
    share, enforced = _gpu_default(config, "DefCpuPerGPU"), config.get("AccountingStorageEnforce", "none").lower()
    cluster = ClusterFacts(
        name=config.get("ClusterName", ""),
        asked=moment[1] if moment else "",
        version=config.get("SLURM_VERSION", ""),
        partitions=tuple(_partitions(text, share)),
        kinds=read_kinds(text, {reservation.name: nodes for reservation, nodes in reserved.items()}),
        reservations=tuple(reserved),
        keeps_accounts=config.get("AccountingStorageType", "").endswith("slurmdbd"),
        enforces=() if enforced == "none" else tuple(enforced.split(",")),
        has_ports=bool(re.search(r"ports=\d+-\d+", config.get("MpiParams", ""))),
        binds=False if config.get("TaskPlugin") in {"task/none", "(null)"} else None,
        kills_on_bad_exit={"0": False, "1": True}.get(config.get("KillOnBadExit", "")),
        array_max=whole_number(config.get("MaxArraySize", "")),
        topology=config.get("TopologyPlugin", ""),
        preempt_type=config.get("PreemptType", "preempt/none"),
        preempt_mode=config.get("PreemptMode", "OFF").upper(),
        counts_gpus="cons_tres" in f"{config.get('SelectType')} {config.get('SelectTypeParameters')}".lower(),
        shares_memory="MEMORY" in config.get("SelectTypeParameters", "").upper(),
        routes=config.get("JobSubmitPlugins", "(null)") not in {"(null)", "", "N/A"},
    )
    return replace(cluster, **_memory_words(config))


def _reservations(lines: Sequence[str]) -> Iterator[tuple[Reservation, frozenset[str]]]:
    """Yield each reservation of whole nodes with their names; one that draws jobs in by itself keeps nobody out."""
    reserving = [line for line in lines if line.startswith("ReservationName=")]
    cores = {
        _name_of(line): _least(_word(line, "Sockets")) * _least(_word(line, "CoresPerSocket"))
        for line in lines
        if reserving and line.startswith("NodeName=")
    }
    for line in reserving:
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        names: frozenset[str] = frozenset()
        with suppress(HostlistError):
            names = frozenset(cores.keys() & expand(words.get("Nodes", "")))
        is_whole = _least(words.get("CoreCnt")) >= sum(cores[name] for name in names)
        if names and is_whole and "MAGNETIC" not in words.get("Flags", ""):
            yield Reservation(words["ReservationName"], words.get("StartTime", ""), words.get("EndTime", "")), names


def _name_of(line: str) -> str:
    """Return the name at the start of a line: NodeName=n1 Arch=…"""
    return line.partition("=")[2].partition(" ")[0]


def read_kinds(text: str, reserved: Mapping[str, Collection[str]] | None = None) -> tuple[KindFacts, ...]:
    """Return the kinds of node; nodes that differ in features, memory or state alone are one kind.

    `reserved`: reservation → its nodes.
    """
    alike: dict[tuple[str | None, ...], list[_NodeWords]] = {}
    for line in text.splitlines():
        if line.startswith("NodeName="):
            node = _NodeWords(_name_of(line), *(_word(line, word) for word in _NodeWords._fields[1:]))
            alike.setdefault((node.Partitions, node.CPUTot, node.CPUEfctv, node.Sockets, node.Gres), []).append(node)
    kinds: dict[tuple[object, ...], KindFacts] = {}
    for nodes in alike.values():
        for kind in _kinds(nodes, reserved or {}):
            key = (kind.partition, kind.cpus, kind.cores, kind.gpus)
            kinds[key] = _joined(kinds[key], kind) if key in kinds else kind
    return tuple(kinds.values())


class _NodeWords(NamedTuple):
    """The words of one node that are read, under Slurm's own names."""

    name: str
    State: str | None
    CPUTot: str | None
    CPUEfctv: str | None
    """The CPUs that jobs get; before 22.05 it is not said."""

    Sockets: str | None
    CoresPerSocket: str | None
    RealMemory: str | None
    MemSpecLimit: str | None
    Gres: str | None
    AvailableFeatures: str | None
    Features: str | None
    """What AvailableFeatures was called before 16.05."""

    Partitions: str | None


def _word(line: str, name: str) -> str | None:
    """Return the value of the first NAME=VALUE: a comment of the site stands last, and may look like another one."""
    start = line.find(f" {name}=")
    if start < 0:
        return None
    return line[start + len(name) + 2 :].partition(" ")[0]


class AccountingAnswer(msgspec.Struct, frozen=True):
    """What the accounting database says of a user, and of every QOS."""

    associations: tuple[Association, ...]
    qos: tuple[QosLimit, ...]


def read_accounting(stdout: str) -> AccountingAnswer | None:
    """Return the user's accounts and the QOS: a row with as many cells as the command has columns.

    None: no row at all. A database that answers has a QOS; a client that reaches none prints its prompts alone.
    """
    lines = _without_prompts(stdout, "sacctmgr").splitlines()
    rows = [line.split("|") for line in lines]
    of_users = (dict(zip(_USER_COLUMNS, row)) for row in rows if len(row) == len(_USER_COLUMNS) and row[1])
    of_qos = (dict(zip(_QOS_COLUMNS, row)) for row in rows if len(row) == len(_QOS_COLUMNS) and row[0])
    associations, qos = tuple(map(_association, of_users)), tuple(map(_qos, of_qos))
    return AccountingAnswer(associations, qos) if associations or qos else None


_GROUP_COLUMNS = ("grptres", "grptresmins", "grptresrunmins", "grpwall", "grpjobs", "grpsubmit")
_JOB_COLUMNS = ("maxwall", "maxtres", "maxtresmins", "maxtrespernode", *_GROUP_COLUMNS)
_USER_COLUMNS = (
    *("defaultaccount", "account", "partition", "qos", "defaultqos", *_JOB_COLUMNS, "maxjobs", "maxsubmit"),
    "cluster",
)
_QOS_COLUMNS = (
    *("name", "preempt", "preemptmode", "flags", *_JOB_COLUMNS, "mintres", "maxtrespu", "maxtrespa"),
    *("maxjobspu", "maxjobspa", "maxsubmitpu", "maxsubmitpa"),
)

_CONTROLLER_COMMANDS = "show config\nshow partition\nshow node\nshow reservation\nquit\n"
CONTROLLER_FACTS = Question(("scontrol", "--all", "--oneliner"), read_controller, stdin=_CONTROLLER_COMMANDS)


def ask_accounting(user: str) -> Question[AccountingAnswer | None]:
    """Ask which accounts and QOS this user has, and what each QOS allows."""
    commands = (
        f"show user {user} withassoc format={','.join(_USER_COLUMNS)}\nshow qos format={','.join(_QOS_COLUMNS)}\nquit\n"
    )
    return Question(("sacctmgr", "--noheader", "--parsable2", "--readonly"), read_accounting, stdin=commands)


Accounts = Mapping[str, tuple[str, Limits]]
"""Account → the account above it, and what all jobs below it may have together."""

_ACCOUNT_COLUMNS = ("account", "parentname", *_GROUP_COLUMNS)


def ask_accounts(cluster: str) -> Question[Accounts]:
    """Ask for the tree of accounts without their users: sacctmgr shows a user no limit of an account as a whole."""
    commands = f"show assoc user= cluster={cluster} format={','.join(_ACCOUNT_COLUMNS)}\nquit\n"
    return Question(("sacctmgr", "--noheader", "--parsable2", "--readonly"), _read_accounts, stdin=commands)


def _read_accounts(stdout: str) -> Accounts:
    """Return the accounts that are shown: where they are private, none."""
    lines = _without_prompts(stdout, "sacctmgr").splitlines()
    rows = (
        dict(zip(_ACCOUNT_COLUMNS, line.split("|"))) for line in lines if line.count("|") == len(_GROUP_COLUMNS) + 1
    )
    return {row.pop("account"): (row.pop("parentname"), read_limits(row)) for row in rows}


def with_accounts(cluster: ClusterFacts, accounts: Accounts) -> ClusterFacts:
    """Return the cluster with the limits of each account that stands above an association of the user."""
    mine = (replace(row, above=tuple(_above(accounts, row.account))) for row in cluster.associations or ())
    return replace(cluster, associations=tuple(mine))


def _above(accounts: Accounts, account: str) -> Iterator[tuple[str, Limits]]:
    """Yield the account and each one above it that has a limit."""
    left = dict(accounts)
    while account in left:
        parent, limits = left.pop(account)
        if limits:
            yield account, limits
        account = parent


def with_accounting(cluster: ClusterFacts, accounting: AccountingAnswer) -> ClusterFacts:
    """Return the cluster with its QOS and the associations of the user; a database may keep those of several."""
    here = {"", cluster.name.lower()}
    mine = (row for row in accounting.associations if not cluster.name or row.cluster.lower() in here)
    return replace(cluster, qos=accounting.qos, associations=tuple(mine))


def _memory_words(words: Mapping[str, str]) -> dict[str, int | None]:
    keys = {"cpu": "DefMemPerCPU", "node": "DefMemPerNode", "cpu_max": "MaxMemPerCPU", "node_max": "MaxMemPerNode"}
    # None for UNLIMITED, which Slurm also writes as 0.
    sizes = {f"memory_per_{name}_mib": _count(words.get(key)) or None for name, key in keys.items()}
    return {**sizes, "memory_per_gpu_mib": _gpu_default(words, "DefMemPerGPU")}


def _gpu_default(words: Mapping[str, str], name: str) -> int | None:
    """Return what a job gets with each GPU, of JobDefaults=DefCpuPerGPU=8,DefMemPerGPU=64000."""
    return _count(dict(re.findall(r"(\w+)=(\d+)", words.get("JobDefaults", ""))).get(name))


# ---------------------------------------------------------------- reading


def _without_prompts(stdout: str, client: str) -> str:
    """Return the answers alone: a client that reads its commands may write its prompt before each of them."""
    return re.sub(rf"(?m)^(?:{client}: ?)+", "", stdout)


def _partitions(text: str, cpus_per_gpu: int | None) -> Iterator[PartitionFacts]:
    """Yield each partition; a line holds one, whose words are KEY=VALUE. `cpus_per_gpu`: the cluster's."""
    for line in text.splitlines():
        if line.startswith("PartitionName="):
            # Two words may stand in one: TRES=cpu=8,mem=4G.
            yield _partition(dict(word.split("=", 1) for word in line.split() if "=" in word), cpus_per_gpu)


def read_states(stdout: str) -> dict[str, str]:
    """Return the state of each partition by its name: UP, DOWN, DRAIN, INACTIVE."""
    return {partition.name: partition.state for partition in _partitions(stdout, None)}


PARTITION_STATES = Question(("scontrol", "--all", "--oneliner", "show", "partition"), read_states)


def _partition(words: Mapping[str, str], cpus_per_gpu: int | None) -> PartitionFacts:
    return PartitionFacts(
        name=words["PartitionName"],
        is_default=words.get("Default") == "YES",
        state=words.get("State", "UP").upper(),
        time_max_s=known_walltime_s(words.get("MaxTime")),
        time_default_s=known_walltime_s(words.get("DefaultTime")),
        nodes=_count(words.get("TotalNodes")) or 0,
        nodes_min=_count(words.get("MinNodes")) or 0,
        nodes_max=_count(words.get("MaxNodes")),
        accounts=_names(words.get("AllowAccounts")),
        accounts_denied=_names(words.get("DenyAccounts")) or (),
        groups=_names(words.get("AllowGroups")),
        qos=_names(words.get("AllowQos")),
        qos_denied=_names(words.get("DenyQos")) or (),
        own_qos=next(iter(_names(words.get("QoS")) or ()), None),
        priority_tier=_count(words.get("PriorityTier") or words.get("Priority")) or 1,
        preempt_mode=words.get("PreemptMode", "OFF").upper(),
        is_exclusive=words.get("OverSubscribe", words.get("Shared", "")).upper() == "EXCLUSIVE",
        submit_hosts=_hosts(words.get("AllocNodes")),
        needs_reservation=words.get("ReqResv") == "YES",
        only_root=words.get("RootOnly") == "YES",
        cpus_per_node_max=_count(words.get("MaxCPUsPerNode")),
        **_memory_words(words),
        cpus_per_gpu=_gpu_default(words, "DefCpuPerGPU") or cpus_per_gpu,
    )


def _names(text: str | None) -> Names | None:
    """Return the names of a list; None for ALL, and where the partition does not say it."""
    if text is None or text in {"ALL", "N/A", "(null)", ""}:
        return None
    return tuple(text.split(","))


def _hosts(text: str | None) -> Names | None:
    """Return the hosts of a list; None for ALL, and for a list that is not read."""
    with suppress(HostlistError):
        return tuple(expand(text or "")) if _names(text) else None
    return None


def _count(text: str | None) -> int | None:
    """Return a whole number; None for UNLIMITED and for what is none."""
    return None if text is None else whole_number(text)


def _is_out(state: str | None) -> bool:
    """Return whether a node takes no job before somebody repairs it: one that boots, or is switched off, comes back."""
    words = set(re.split(r"[*+]+", (state or "").upper()))
    return bool(words & {"DRAIN", "DOWN", "FAIL", "ERROR"}) and "REBOOT" not in (state or "")


def _kinds(nodes: Sequence[_NodeWords], reserved: Mapping[str, Collection[str]]) -> Iterator[KindFacts]:
    """Yield the kind of these nodes, which look alike, once for each of their partitions."""
    first = nodes[0]
    all_cpus, core_count = _least(first.CPUTot), _least(first.Sockets) * _least(first.CoresPerSocket)
    threads = max(1, all_cpus // core_count) if core_count else 1
    cpus = _least(first.CPUEfctv) or all_cpus
    texts = dict.fromkeys(node.AvailableFeatures or node.Features or "" for node in nodes)
    features = dict.fromkeys(word for text in texts for word in text.split(",") if word and word != "(null)")
    memories = Counter(_least(node.RealMemory) - _least(node.MemSpecLimit) for node in nodes)
    usable = [node.name for node in nodes if not _is_out(node.State)]
    taken = {name: sum(node in those for node in usable) for name, those in reserved.items()}
    for partition in (first.Partitions or "").split(","):
        if partition:
            yield KindFacts(
                partition=partition,
                nodes=len(nodes),
                cpus=cpus,
                cores=cpus // threads,
                memories=dict(memories),
                gpus=tuple(_gpus(first.Gres or "")),
                features=tuple(features),
                out=len(nodes) - len(usable),
                reserved={name: count for name, count in taken.items() if count},
            )


def _gpus(gres: str) -> Iterator[tuple[str, int]]:
    """Yield type and count of each item for GPUs: gpu:a100:4(S:0-1), gpu:a100_1g.5gb:7, gpu:2."""
    for item in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *rest = item.split(":")
        counts = [word for word in rest if re.fullmatch(r"[0-9]{1,9}K?", word)]
        if name == "gpu" and counts:
            types = [word for word in rest if word not in {counts[-1], "no_consume"}]
            yield (types[0] if types else ""), _least(counts[-1]) * (1024 if counts[-1].endswith("K") else 1)


def count_gpus(gres: str) -> int:
    """Return the GPUs of "gpu:a100:4(S:0-1),gpu:h100:2"."""
    return sum(count for _, count in _gpus(gres))


def _least(text: str | None) -> int:
    """Return the number at the start; 0 where there is none."""
    match = re.match(r"[0-9]{1,15}", text or "")
    return int(match[0]) if match else 0


def _joined(one: KindFacts, other: KindFacts) -> KindFacts:
    return msgspec.structs.replace(
        one,
        nodes=one.nodes + other.nodes,
        memories=dict(Counter(one.memories) + Counter(other.memories)),
        features=tuple(dict.fromkeys((*one.features, *other.features))),
        out=one.out + other.out,
        reserved=dict(Counter(one.reserved) + Counter(other.reserved)),
    )


def _association(row: Mapping[str, str]) -> Association:
    qos = tuple(filter(None, row["qos"].split(",")))
    is_default = row["account"] == row["defaultaccount"]
    limits = read_limits({name: row[name] for name in _USER_COLUMNS[5:-1]})
    return Association(row["account"], row["partition"], qos, row["defaultqos"], is_default, limits, row["cluster"])


def _qos(row: Mapping[str, str]) -> QosLimit:
    preempts, flags = (tuple(filter(None, row[name].split(","))) for name in ("preempt", "flags"))
    limits = read_limits({name: row[name] for name in _QOS_COLUMNS[4:]})
    if "Relative" in flags:  # its counts are per cent of the cluster
        limits = {name: count for name, count in limits.items() if ":" not in name}
    return QosLimit(row["name"], limits, preempts, row["preemptmode"].lower(), flags)
