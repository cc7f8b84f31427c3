"""Every check there is: its name, and the judge that speaks for it."""

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

    judge: Judge
    is_of_one_machine: bool = False
    """Whether it says something of a machine alone; the others look at the ranks of a job."""

    quick: bool = True
    """Part of the gate before a run."""


CHECKS: Tuple[Check, ...] = (
    # whether the ranks meet
    Check("meeting", meeting.judge_presence),
    Check("port", meeting.judge_port),
    Check("strangers", store.judge_strangers, quick=False),
    Check("names", meeting.judge_names),
    Check("reverse names", meeting.judge_reverse),
    Check("clocks", meeting.judge_clocks),
    # the fabric, and the variables that steer it
    Check("variables", variables.judge_variables),
    Check("variables that differ", variables.differing_variables),
    Check("RoCE address", variables.gid_index),
    Check("interfaces", fabric.judge_interfaces),
    Check("interfaces", fabric.judge_sizes),
    Check("RDMA cards", fabric.judge_cards),
    Check("rank order", fabric.judge_order),
    Check("links", fabric.judge_links),
    # GPUs
    Check("devices", devices.judge_own_device),
    Check("devices", devices.judge_present),
    Check("GPU health", devices.judge_health, is_of_one_machine=True),
    Check("GPU health", devices.judge_gpu_cards, is_of_one_machine=True),
    Check("GPU health", devices.judge_driver, is_of_one_machine=True),
    Check("peer access", devices.judge_peers, is_of_one_machine=True),
    Check("versions", compare.judge_software),
    # cores
    Check("binding", binding.judge_binding),
    Check("threads", binding.judge_threads),
    # what a start needs of a node
    Check("space", start.judge_space, is_of_one_machine=True),
    Check("import time", start.judge_imports),
    Check("forked workers", start.judge_forks),
    Check("limits", start.judge_limits, is_of_one_machine=True),
    Check("leftovers", start.judge_leftovers, is_of_one_machine=True),
    Check("shared directory", start.judge_shared),
    # here and there
    Check("login against compute", compare.judge_login, quick=False),
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
    return bool(world.ranks or (check.is_of_one_machine and world.login))
