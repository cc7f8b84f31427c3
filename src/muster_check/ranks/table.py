"""Every check there is: its name, where it makes sense, and the judge that speaks for it."""

from typing import Iterator, List, NamedTuple, Sequence, Tuple

try:
    from typing import Protocol
except ImportError:
    raise SystemExit("muster: error: the check needs Python 3.8 or newer") from None

from muster.rank.finding import BROKEN, NOTE, WARNING, Finding

from . import binding, compare, devices, fabric, meeting, start, store, variables
from .facts import CheckedWorld


class Judge(Protocol):
    """Facts → findings. Pure: the same facts, the same findings; what is not known is not judged."""

    def __call__(self, world: CheckedWorld) -> Iterator[Finding]: ...


class Check(NamedTuple):
    """One line of the table."""

    name: str
    """The name that its findings have."""

    area: str
    where: Tuple[str, ...]
    """login, node: one machine alone; ranks: the ranks of a job with each other."""

    says: str
    judge: Judge
    quick: bool = True
    """Part of the gate before a run."""


CHECKS: Tuple[Check, ...] = (
    Check("meeting", "rendezvous", ("ranks",), "every host and every rank comes to rank 0", meeting.judge_presence),
    Check("port", "rendezvous", ("ranks",), "rank 0 can listen on the port of the rendezvous", meeting.judge_port),
    Check("strangers", "rendezvous", ("ranks",), "who outside the job can join", store.judge_strangers, False),
    Check("names", "rendezvous", ("ranks",), "every node knows the others by the same addresses", meeting.judge_names),
    Check("reverse names", "rendezvous", ("ranks",), "what torch's look-ups of names cost", meeting.judge_reverse),
    Check("clocks", "rendezvous", ("ranks",), "the clocks of the nodes agree", meeting.judge_clocks),
    Check(
        "variables",
        "fabric",
        ("ranks",),
        "variables that contradict each other, or that no program reads",
        variables.judge_variables,
    ),
    Check("variables that differ", "fabric", ("ranks",), "the same value on all ranks", variables.differing_variables),
    Check("RoCE address", "fabric", ("ranks",), "NCCL_IB_GID_INDEX is right on every node", variables.gid_index),
    Check("interfaces", "fabric", ("ranks",), "named interfaces are up, with an address", fabric.judge_interfaces),
    Check("interfaces", "fabric", ("ranks",), "packet sizes agree between the nodes", fabric.judge_sizes),
    Check("RDMA cards", "fabric", ("ranks",), "the same cards on every node, all active", fabric.judge_cards),
    Check("links", "fabric", ("ranks",), "the way from rank 0 to each node is not slow", fabric.judge_links),
    Check("devices", "devices", ("ranks",), "every rank has a GPU of its own", devices.judge_own_device),
    Check("devices", "devices", ("ranks",), "every node has as many GPUs as asked for", devices.judge_present),
    Check(
        "GPU health",
        "devices",
        ("login", "node", "ranks"),
        "ECC, row remap, clocks, Xid, leftovers",
        devices.judge_health,
    ),
    Check(
        "GPU health",
        "devices",
        ("login", "node", "ranks"),
        "MIG, PCIe lanes, ECC switched on, MPS",
        devices.judge_gpu_cards,
    ),
    Check("GPU health", "devices", ("login", "node", "ranks"), "the driver serves torch's CUDA", devices.judge_driver),
    Check("peer access", "devices", ("node", "ranks"), "GPUs reach each other's memory", devices.judge_peers),
    Check(
        "versions", "devices", ("ranks",), "driver, NCCL, torch and Python agree between nodes", compare.judge_software
    ),
    Check("binding", "binding", ("ranks",), "each rank on cores of its own, beside its GPU", binding.judge_binding),
    Check("threads", "binding", ("ranks",), "no more OpenMP threads than CPUs", binding.judge_threads),
    Check(
        "space", "start", ("login", "node", "ranks"), "room in /tmp, /dev/shm and the run's places", start.judge_space
    ),
    Check("import time", "start", ("ranks",), "what importing Python packages costs on each node", start.judge_imports),
    Check("forked workers", "start", ("ranks",), "data loaders may fork beside the fabric's card", start.judge_forks),
    Check("limits", "start", ("node", "ranks"), "open files, locked memory, processes", start.judge_limits),
    Check(
        "leftovers", "start", ("login", "node", "ranks"), "locks and memory of ended processes", start.judge_leftovers
    ),
    Check("shared directory", "start", ("ranks",), "the working directory is one and the same", start.judge_shared),
    Check(
        "login against compute",
        "compare",
        ("ranks",),
        "what differs between here and the job",
        compare.judge_login,
        False,
    ),
)

_ORDER = {BROKEN: 0, WARNING: 1, NOTE: 2}


def judge(world: CheckedWorld, *, quick: bool = False, checks: Sequence[Check] = CHECKS) -> List[Finding]:
    """Return all findings, the worst first; each said once."""
    findings = [
        finding
        for check in checks
        if (check.quick or not quick) and _makes_sense(check, world)
        for finding in check.judge(world)
    ]
    return sorted(dict.fromkeys(findings), key=lambda finding: _ORDER[finding.status])


def _makes_sense(check: Check, world: CheckedWorld) -> bool:
    return bool(world.ranks) if check.where == ("ranks",) else bool(world.ranks or world.login)
