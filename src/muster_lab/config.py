"""LabSpec → the text of every configuration file of the lab, by Slurm version. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address

from muster.rank.hostlist import compress
from muster_lab import paths
from muster_lab.spec import HostGroup, LabPartition, LabSpec

LOGIN = "login"
NETWORK_BITS = 16
# Only what an address of the second kind is called: every name leads to one address.
_DOMAIN = "lab"
_LOGIN_ADDRESS = IPv4Address("10.77.0.1")
NETWORK = f"10.77.0.0/{NETWORK_BITS}"
# In a larger lab, packets between hosts pass through the login host.
MOST_NEIGHBOURS = 128

# Below the ports that Linux gives to outgoing connections (32768 and up).
_STEP_PORTS = "20000-20999"

# Nobody's on a Debian or systemd machine, and inside the usual range of 65,536 subordinate ids.
_FIRST_USER_ID = 60600

Version = tuple[int, int]


def files(spec: LabSpec, version: Version) -> Mapping[str, str]:
    """Name → text of what stands in the lab's /etc/slurm."""
    texts = {
        "slurm.conf": slurm_conf(spec),
        "gres.conf": gres_conf(spec),
        "cgroup.conf": cgroup_conf(version),
        "task_prolog.sh": _TASK_PROLOG.format(more=_CUT_GPUS if spec.cuts_gpus else ""),
    }
    if spec.accounting:
        texts["slurmdbd.conf"] = slurmdbd_conf()
    if spec.topology is not None:
        texts["topology.conf"] = topology_conf(spec)
    if spec.job_submit_lua is not None:
        texts["job_submit.lua"] = spec.job_submit_lua
    return texts


def slurm_conf(spec: LabSpec) -> str:
    """Return slurm.conf. `spec.options` replace the lab's own: Slurm complains of a key that stands there twice."""
    settings = [
        ("ClusterName", spec.cluster),
        ("SlurmctldHost", f"{LOGIN}({_LOGIN_ADDRESS})"),
        ("AuthType", "auth/munge"),
        ("CredType", "cred/munge"),
        ("SlurmUser", "root"),
        ("SlurmdUser", "root"),
        ("StateSaveLocation", str(paths.STATE / "state")),
        ("SlurmdSpoolDir", str(paths.STATE / "spool/%n")),
        ("SlurmctldPidFile", str(paths.CONTROLLER_PID)),
        ("SlurmdPidFile", str(paths.STATE / "slurmd-%n.pid")),
        ("SlurmctldLogFile", str(paths.LOGS / "slurmctld.log")),
        ("SlurmdLogFile", str(paths.LOGS / "slurmd-%n.log")),
        ("ProctrackType", "proctrack/linuxproc"),
        ("TaskPlugin", "task/none"),
        ("TaskProlog", str(paths.CONFIG / "task_prolog.sh")),
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_Core"),
        ("MailProg", "/bin/true"),
        ("MpiDefault", "none"),
        ("MpiParams", f"ports={_STEP_PORTS}"),
        ("ReturnToService", "2"),
        ("SlurmdTimeout", "60" if is_routed(spec) else "10"),
        # 4,096 tasks on two cores answer later than after Slurm's 10 s.
        *([("MessageTimeout", "60")] if is_routed(spec) else []),
        # A launch that is lost on a busy machine is sent again after 60 s; at 10 s the controller cancels its job.
        ("BatchStartTimeout", "120"),
        ("SlurmdParameters", "config_overrides"),
        ("SchedulerType", "sched/backfill"),
        ("SchedulerParameters", "batch_sched_delay=0,sched_interval=5,bf_interval=5"),
        *_accounting(spec),
        *([("TopologyPlugin", f"topology/{spec.topology[0]}")] if spec.topology is not None else []),
        *([("JobSubmitPlugins", "lua")] if spec.job_submit_lua is not None else []),
        *([("GresTypes", "gpu")] if any(group.gpus for group in spec.groups) else []),
    ]
    lines = [*map(_node_line, spec.groups), *(_partition_line(spec, partition) for partition in spec.partitions)]
    return _settings({**dict(settings), **dict(spec.options)}.items()) + "".join(lines)


def _accounting(spec: LabSpec) -> list[tuple[str, str]]:
    if not spec.accounting:
        return []
    return [
        ("AccountingStorageType", "accounting_storage/slurmdbd"),
        ("AccountingStorageHost", LOGIN),
        ("AccountingStorageEnforce", "associations,limits,qos"),
        ("AccountingStorageTRES", "gres/gpu"),
        ("AccountingStoreFlags", "job_comment,job_env,job_script"),
        ("JobAcctGatherType", "jobacct_gather/linux"),
        ("JobAcctGatherFrequency", "task=5"),
    ]


def _node_line(group: HostGroup) -> str:
    threads = group.threads_per_core
    words = [
        f"NodeName={compress(group.names)}",
        f"CPUs={group.cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={group.cpus // threads} ThreadsPerCore={threads}",
        f"RealMemory={group.memory_mib}",
    ]
    if group.gpus:
        words.append(f"Gres={_gres(group)}:{group.gpus}")
    if group.features:
        words.append(f"Feature={','.join(group.features)}")
    return " ".join([*words, "State=UNKNOWN"]) + "\n"


def _gres(group: HostGroup) -> str:
    return "gpu" if group.gpu_type is None else f"gpu:{group.gpu_type}"


def _partition_line(spec: LabSpec, partition: LabPartition) -> str:
    default = partition.default or (
        partition is spec.partitions[0] and not any(partition.default for partition in spec.partitions)
    )
    words = [f"PartitionName={partition.name}", f"Nodes={compress(partition.hosts or spec.hosts)}"]
    if default:
        words.append("Default=YES")
    return " ".join([*words, *(f"{key}={value}" for key, value in partition.options), "State=UP"]) + "\n"


def gres_conf(spec: LabSpec) -> str:
    """Return gres.conf with one device file per GPU: without File= the nodes come up invalid."""
    lines = []
    for group in spec.groups:
        if group.gpus:
            kind = "" if group.gpu_type is None else f" Type={group.gpu_type}"
            devices = paths.DEVICES / (f"nvidia[0-{group.gpus - 1}]" if group.gpus > 1 else "nvidia0")
            # Slurm itself would set the variable again in every task, whatever stands before srun.
            flags = " Flags=no_gpu_env" if spec.cuts_gpus else ""
            lines.append(f"NodeName={compress(group.names)} Name=gpu{kind} File={devices}{flags}\n")
    return "".join(lines)


def topology_conf(spec: LabSpec) -> str:
    """Return topology.conf: the hosts in groups, each under one switch or in one block, and all of them connected."""
    assert spec.topology is not None  # noqa: S101  # asked before
    kind, size = spec.topology
    hosts = spec.hosts
    groups = [compress(hosts[start : start + size]) for start in range(0, len(hosts), size)]
    if kind == "block":
        lines = [f"BlockName=b{number} Nodes={group}" for number, group in enumerate(groups, start=1)]
        return _lines([*lines, f"BlockSizes={size}"])
    lines = [f"SwitchName=s{number} Nodes={group}" for number, group in enumerate(groups, start=1)]
    return _lines([*lines, f"SwitchName=top Switches=s[1-{len(groups)}]"])


def cgroup_conf(version: Version) -> str:
    """Return cgroup.conf without cgroups: 22.05 cannot say so (its cgroup/v1 does nothing without task/cgroup)."""
    return "CgroupPlugin=cgroup/v1\n" if version < (23, 11) else "CgroupPlugin=disabled\n"


def slurmdbd_conf() -> str:
    """Return slurmdbd.conf: the database is reached through its socket in the lab's own /run."""
    return _settings(
        [
            ("AuthType", "auth/munge"),
            ("DbdHost", LOGIN),
            ("DbdAddr", str(_LOGIN_ADDRESS)),
            ("SlurmUser", "root"),
            ("PidFile", str(paths.STATE / "slurmdbd.pid")),
            ("LogFile", str(paths.LOGS / "slurmdbd.log")),
            ("StorageType", "accounting_storage/mysql"),
            ("StorageHost", "localhost"),
            ("StorageUser", "root"),
            ("StorageLoc", "slurm"),
        ]
    )


# Open MPI refuses to start as root unless told; jobs with --export=NONE lose what `lab exec` set.
_TASK_PROLOG = """\
#!/bin/sh
[ "$SLURM_JOB_UID" = 0 ] && echo "export OMPI_ALLOW_RUN_AS_ROOT=1" && echo "export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
{more}exit 0
"""

# As a plugin of the site does it: each task of several gets a GPU of its own, one task keeps all.
_CUT_GPUS = """\
if [ -z "${CUDA_VISIBLE_DEVICES+set}" ] && [ "${SLURM_GPUS_ON_NODE:-0}" -gt 0 ]; then
    tasks=$(printf '%s' "${SLURM_STEP_TASKS_PER_NODE:-1}" | cut -d '(' -f 1 | cut -d , -f 1)
    if [ "$tasks" -gt 1 ]; then
        echo "export CUDA_VISIBLE_DEVICES=$((SLURM_LOCALID % SLURM_GPUS_ON_NODE))"
    fi
fi
"""


def is_routed(spec: LabSpec) -> bool:
    """Return whether packets between hosts pass through the login host."""
    return len(spec.hosts) > MOST_NEIGHBOURS


def address(spec: LabSpec, host: str) -> str:
    """Return the address of a host; the login host has the first one."""
    return str(_LOGIN_ADDRESS + (0 if host == LOGIN else 1 + spec.hosts.index(host)))


def hosts_file(spec: LabSpec) -> str:
    """Return /etc/hosts of every host: the lab's names, and nothing of the machine's."""
    lines = ["127.0.0.1 localhost", f"{_LOGIN_ADDRESS} {LOGIN}"]
    lines += [f"{_LOGIN_ADDRESS + number} {host}" for number, host in enumerate(spec.hosts, start=1)]
    # A program with a socket for both kinds of address asks for the name of ::ffff:10.77.0.2. libc looks for that
    # among the addresses of the second kind only, and then asks a name server that no lab has.
    names = [LOGIN, *spec.hosts]
    lines += ["::1 ip6-localhost ip6-loopback", f"::ffff:127.0.0.1 localhost.{_DOMAIN}"]
    lines += [f"::ffff:{_LOGIN_ADDRESS + number} {name}.{_DOMAIN}" for number, name in enumerate(names)]
    return "\n".join(lines) + "\n"


def user_ids(spec: LabSpec) -> dict[str, int]:
    """Return the user id, equal to the group id, of each of the lab's ordinary users."""
    return {name: _FIRST_USER_ID + number for number, name in enumerate(spec.users, start=1)}


def passwd_file(machine: str, spec: LabSpec, home: str) -> str:
    """Return the machine's passwd with the caller's home for root, and the lab's ordinary users."""
    ids = user_ids(spec)
    kept_lines = [line for line in _others(machine, ids) if not line.startswith("root:")]
    root = f"root:x:0:0:root:{home}:/bin/bash"
    return _lines(
        [
            root,
            *kept_lines,
            *(f"{name}:x:{number}:{number}::{paths.HOMES / name}:/bin/bash" for name, number in ids.items()),
        ]
    )


def shadow_file(passwd: str) -> str:
    """Return every user of `passwd`, without a password: for --export=NONE Slurm asks `su`, which asks this file.

    The machine's own is closed to an ordinary user's lab, and does not know the lab's users.
    """
    return _lines([f"{line.partition(':')[0]}:*:::::::" for line in passwd.splitlines()])


def group_file(machine: str, spec: LabSpec) -> str:
    """Return the machine's group file and one group for each of the lab's ordinary users."""
    ids = user_ids(spec)
    return _lines([*_others(machine, ids), *(f"{name}:x:{number}:" for name, number in ids.items())])


def _others(machine: str, own_ids: Mapping[str, int]) -> list[str]:
    return [line for line in machine.splitlines() if line.partition(":")[0] not in own_ids]


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _settings(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{key}={value}\n" for key, value in pairs)
