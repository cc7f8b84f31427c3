"""What a login node may ask of its cluster: configuration, QOS, accounts, states of nodes, what srun knows of MPI."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from muster.older import StrEnum
from muster.slurm.flags import gpus_in_gres
from muster.slurm.question import Question
from muster.units import known_walltime_s, parse_memory_mib


def _read_configuration(stdout: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in stdout.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _read_ping(stdout: str) -> bool | None:
    """Return whether a controller, of one or several, is up; None: no line says it. Old versions end well for DOWN."""
    words = re.findall(r"Slurmctld\b.* (?:is|are) ([A-Z]+(?:/[A-Z]+)*)", stdout)
    return any("UP" in word.split("/") for word in words) if words else None


def _read_mpi_types(text: str) -> tuple[str, ...]:
    """Return every value that --mpi takes here, versions of a plug-in too; up to 20.11 srun writes its name before."""
    lines = re.findall(r"(?m)^\s*(?:srun: )?([a-z0-9_]+)\s*$", text)
    versions = re.findall(r"versions available: (\S+)", text)
    return tuple(dict.fromkeys([*lines, *(name for line in versions for name in line.split(","))]))


Limits = Mapping[str, int]
"""What an account or a QOS sets, by sacctmgr's names: maxtres:node, mintres:gres/gpu, maxsubmitpu; times in s."""


class QosLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A quality of service, and what it allows."""

    name: str
    limits: Limits = msgspec.field(default_factory=dict)
    preempts: tuple[str, ...] = ()
    """The QOS whose jobs it may take nodes from."""

    preempt_mode: str = ""
    """What becomes of its own jobs then; empty or cluster: what the cluster does."""

    flags: tuple[str, ...] = ()


def _read_shares(stdout: str) -> tuple[str, ...]:
    """Read the accounts of a tree: sshare indents what lies below another."""
    names = (line.strip().split("|")[0] for line in stdout.splitlines())
    return tuple(dict.fromkeys(name for name in names if re.fullmatch(r"[\w.@+-]+", name)))


def read_limits(cells: Mapping[str, str]) -> Limits:
    """Return each limit that these cells set; memory in MiB (mem=4G), other sizes are not read."""
    limits: dict[str, int] = {}
    for column, text in cells.items():
        limits |= {
            f"{column}:mem": parse_memory_mib(size) for size in re.findall(r"(?:^|,)mem=(\d{1,12}[MGT]?)(?=,|$)", text)
        }
        counts = re.findall(r"(?:^|,)(?!mem=)([a-z/:_.\w-]+)=(\d{1,15})(?=,|$)", text)
        limits |= {f"{column}:{name}": int(count) for name, count in counts}
        if column in {"maxwall", "grpwall"}:
            limits |= {} if (seconds := known_walltime_s(text)) is None else {column: seconds}
        elif text.isdigit():
            limits[column] = int(text)
    return limits


CONTROLLER = Question(("scontrol", "ping"), _read_ping)
CONFIGURATION = Question(("scontrol", "show", "config"), _read_configuration)
MPI_TYPES = Question(("srun", "--mpi=list"), _read_mpi_types)
# What the controller itself knows of this user, where the accounting database is closed to users.
SHARES = Question(("sshare", "-U", "--noheader", "--parsable2", "--format=Account"), _read_shares)


class NodeState(StrEnum):
    """What Slurm says of a node, as far as it decides whether the node is lost."""

    UP = "up"  # it has jobs, or waits for some
    DOWN = "down"
    OTHER = "other"  # drained, or Slurm waits for its answer


def node_state(words: str) -> NodeState:
    """Return the state of a node as sinfo writes it: "idle", "mixed", "down*"; a * means that it does not answer."""
    if re.match(r"down|fail|error", words, re.IGNORECASE):
        return NodeState.DOWN
    return NodeState.UP if re.fullmatch(r"(idle|mix|alloc|compl)[a-z]*", words, re.IGNORECASE) else NodeState.OTHER


def ask_node_states(nodes: str) -> Question[dict[str, str] | None]:
    """Ask for the state of each of these nodes, as sinfo writes it: "idle", "down*"."""
    return Question(("sinfo", "--Node", f"--nodes={nodes}", "--format=%N|%T"), _read_node_states)


def _read_node_states(stdout: str) -> dict[str, str] | None:
    """Return the states by node; None without the heading, which sinfo prints also where it has no node."""
    _, heading, rows = stdout.partition("NODELIST|STATE\n")
    cells = (line.partition("|") for line in rows.splitlines())
    return {node.strip(): state.strip() for node, bar, state in cells if bar} if heading else None


def ask_nodes_out(partitions: str) -> Question[list[tuple[str, ...]]]:
    """Ask which nodes of these partitions take no job: their names, their state, and the reason that somebody gave."""
    columns = "--format=%N|%T|%E"
    argv = ("sinfo", "--list-reasons", "--noheader", f"--partition={partitions}", columns)
    return Question(argv, lambda stdout: [tuple(line.split("|", 2)) for line in stdout.splitlines() if "|" in line])


def ask_gpus_of(job: str) -> Question[int | None]:
    """Ask how many GPUs a job has on each node."""
    argv = ("squeue", "--noheader", f"--jobs={job}", "--format=%b")
    return Question(argv, lambda stdout: gpus_in_gres(stdout.strip().replace("gres:", "")))
