"""Write docs/reference/output.schema.json, which describes what `--json` prints; `--check` compares.

The types stand here, and tests read real outputs with them: a key too many, one that lacks, or another type fails.
"""

from __future__ import annotations

import enum
import json
import sys
import typing
from pathlib import Path
from typing import Any, Literal, Union

import msgspec

from muster.follow.nccl_log import Transport
from muster.model.plan import Plan
from muster.model.words import Fragment, Hidden, Template
from muster_bench.judge import Remark
from muster_bench.results import Absent, CollectiveRow, ProbeResult, Start
from muster_bench.starts import StartRow

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "output.schema.json"
Phase = Literal["waiting", "running", "ended well", "ended badly", "ended", "unknown"]
Clears = Literal[
    "by itself",
    "when you change the job",
    "when the site's staff act",
    "when the job that it waits for ends as --dependency asks",
    "unknown",
]


class Exact(msgspec.Struct, forbid_unknown_fields=True):
    """An object with these keys and no others."""


class Job(Exact):
    """A job, of `jobs --json`."""

    job: str
    shown_id: str | None
    name: str | None
    state: str
    phase: Phase
    reason: str | None
    exit_code: int | None
    signal: int | None
    user: str | None
    partition: str | None
    account: str | None
    qos: str | None
    nodes: int | None
    cpus: int | None
    node_list: str | None
    time_limit_s: int | None
    submitted: str | None
    started: str | None
    expected_start: str | None
    ended: str | None
    ours: bool
    directory: str | None
    row: dict[str, str] | None


class Attempt(Exact):
    """One run of a job that may run again."""

    attempt: int
    began: int | None
    ended: int | None
    status: int | None
    rank: int | None
    host: str | None
    decision: str
    cause: str | None
    done: str | None


class StatusJob(Job):
    """A job, of `status --json`."""

    attempts: list[Attempt]


class Waiting(Exact):
    """Why a job waits."""

    code: str
    detail: str | None
    sentence: str
    sooner: str
    clears: Clears
    dependency: str | None


class Running(Exact):
    """What the ranks of a job do."""

    kind: str
    stands: bool
    sentence: str
    remedy: str | None
    records: list[str]
    ranks: list[int]
    host: str | None
    file: str | None
    line: int | None
    role: str | msgspec.UnsetType = msgspec.UNSET


class FirstFailure(Exact):
    """What failed first."""

    sentence: str
    host: str | None
    ranks: list[int]
    status: int | None
    line: str


class KnownError(Exact):
    """What the last lines are known to mean."""

    id: str
    cause: str
    remedy: str


class WhyJob(StatusJob):
    """A job, of `why --json`."""

    explanation: str
    waiting: Waiting | None
    running: Running | None
    first_failure: FirstFailure | None
    last_lines: list[str]
    known_error: KnownError | None
    nodes_down: list[str] | None
    warnings: list[str]


class Line(Exact):
    """One line of `logs --json`: an object for each line of output."""

    rank: int | None
    text: str
    task: str | msgspec.UnsetType = msgspec.UNSET


class Cancelled(Exact):
    """The answer of `cancel --json`."""

    cancelled: list[str]
    over: list[str]
    refused: list[str]


class Partition(Exact):
    """A partition, of `queues --json`."""

    name: str
    is_default: bool
    is_up: bool
    time_limit_s: int | None
    default_time_s: int | None
    least_nodes: int
    most_nodes: int | None
    nodes: int
    idle_nodes: int
    idle_cpus: int
    cpus_per_node: int
    memory_mib_per_node: int
    gres: list[str]
    nodes_by_state: dict[str, int]
    waiting_jobs: int


class Page(Exact):
    """A page, of `docs --json`."""

    page: str
    kind: str
    title: str


class SiteHead(Exact):
    """A profile, of `site list --json`."""

    name: str
    title: str
    summary: str
    complete: bool
    layer: str
    file: str


class Submitted(Exact):
    """The answer of `submit --json`."""

    job: str
    directory: str
    adopted: bool


class BadNode(Exact):
    """A node, of `nodes --json`."""

    node: str
    cause: str
    job: str
    when: float
    expires: float


class Cleared(Exact):
    """The answer of `nodes --clear --json`."""

    cleared: list[str]


class Leftover(Exact):
    """A thing that may go, of `clean --json`."""

    kind: str
    path: str
    bytes: int
    age_s: int
    kept: str | None
    job: str | None
    cluster: str | None


class StagedAt(Exact):
    """The answer of `stage --json`."""

    path: str
    local: bool
    trouble: list[str]


class AlsoAt(Exact):
    """Another place of the same finding."""

    line: int
    column: int


class LintFinding(Exact):
    """A finding, of `lint --json`."""

    rule: str
    severity: Literal["breaks", "hangs", "slow", "fragile", "style"]
    path: str
    line: int
    column: int
    end_line: int | None
    end_column: int | None
    message: str
    why: str
    instead: str
    source: str
    fixable: bool
    certain: bool
    also: list[AlsoAt]


class PortedPart(Exact):
    """What became of one part of a script."""

    line: int | None
    what: str
    verdict: str
    now: str
    why: str


class PortRefusal(Exact):
    """Why the new job cannot be planned."""

    message: str
    hint: str | None


class Ported(Exact):
    """The answer of `port --json`."""

    line: str
    options: list[str]
    command: list[str]
    rows: list[PortedPart]
    script: str | None
    refusal: PortRefusal | None


class CheckFinding(Exact):
    """What a check has to say."""

    what: str
    status: Literal["broken", "warning", "note"]
    evidence: str
    remedy: str
    hosts: list[str]


class VariableInForce(Exact):
    """A variable of the ranks."""

    name: str
    value: str
    origin: str
    holders: str


class Checked(Exact):
    """The answer of `check --json`."""

    hosts: list[str]
    ranks: int
    checks: list[str]
    findings: list[CheckFinding]
    variables: list[VariableInForce]


class CauseInLog(Exact):
    """A known error in a log."""

    id: str
    family: str
    cause: str
    remedy: str
    source: str
    consequence: bool
    line: int
    rank: int | None
    text: str
    times: int


class GroupOfRanks(Exact):
    """Ranks at the same line."""

    ranks: list[int]
    hosts: list[str]
    what: str
    file: str | None
    line: int | None
    function: str | None
    in_collective: bool
    trouble: str | None
    role: str | msgspec.UnsetType = msgspec.UNSET


class OtherProgram(Exact):
    """A rank that does not run Python."""

    rank: int
    host: str
    name: str
    role: str | msgspec.UnsetType = msgspec.UNSET


class Stacks(Exact):
    """The answer of `stacks --json`."""

    ranks: int
    sentence: str | None
    groups: list[GroupOfRanks]
    programs: list[OtherProgram]
    silent_hosts: list[str]
    records: list[str]


class SiteLayer(Exact):
    """A file that a profile comes from."""

    layer: str
    file: str


class SiteOrigin(Exact):
    """Where a value of a profile comes from."""

    layer: str
    file: str
    line: int | None
    source: str | None
    at: str | None
    checked: str | None
    trust: str | None
    reason: str | None


class SiteShown(Exact):
    """The answer of `site show --json`; `profile` has the keys of profile.schema.json."""

    site: str
    layers: list[SiteLayer]
    profile: dict[str, Any]
    origins: dict[str, SiteOrigin]
    missing: list[str]


class SiteSign(Exact):
    """A sign that other sites may have too."""

    site: str
    sign: str


class SiteDetected(Exact):
    """The answer of `site detect --json`."""

    site: str
    evidence: list[str]
    not_decisive: list[SiteSign]


class LabHost(Exact):
    """A host of a lab."""

    name: str
    address: str
    state: str
    faults: list[str]


class LabStatus(Exact):
    """The answer of `lab status --json` and `lab up --json`."""

    name: str
    pid: int
    slurm: str
    accounting: bool
    internet: bool
    controller: Literal["up", "stopped"]
    hosts: list[LabHost]
    memory_mib: float
    real: list[str]
    faked: list[str]


class Pin(Exact):
    """A package, of `build lock --json`."""

    name: str
    level: str
    where: str = msgspec.field(name="from")


class PlanWord(Exact):
    """A word that only the job's shell can fill in (`shell`; `text`, with gaps), or that is not shown (`hidden`)."""

    shell: str | msgspec.UnsetType = msgspec.UNSET
    hidden: bool | msgspec.UnsetType = msgspec.UNSET
    text: str | msgspec.UnsetType = msgspec.UNSET
    columns: list[str] | msgspec.UnsetType = msgspec.UNSET


_MADE: dict[type, Any] = {Fragment: PlanWord, Hidden: PlanWord, Template: PlanWord}


def exact(kind: Any) -> Any:
    """Return the type of what is printed of a value of this type: objects with its keys and no others."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind not in _MADE:
            hints = typing.get_type_hints(kind)
            _MADE[kind] = dict[str, Any]  # where it stands in itself: the plan of a role
            fields = [(name, exact(hints[name])) for name in kind.__struct_fields__]
            words = (kind.__doc__ or "").partition("\n")[0]
            _MADE[kind] = msgspec.defstruct(
                kind.__name__, fields, bases=(Exact,), module=__name__, namespace={"__doc__": words}
            )
        return _MADE[kind]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return Literal[tuple(member.value for member in kind)]
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in {tuple, list}:
        # A tuple of a fixed length is a list in JSON: what stands where is told by the page.
        return list[Union[tuple(dict.fromkeys(exact(each) for each in arguments if each is not ...))]]  # type: ignore[misc]
    if typing.get_origin(kind) is dict:
        return dict[exact(arguments[0]), exact(arguments[1])]  # type: ignore[misc]
    if arguments and typing.get_origin(kind) is not Literal:
        return Union[tuple(dict.fromkeys(exact(each) for each in arguments))]
    return kind


def added(name: str, base: Any, **more: Any) -> Any:
    """Return the type of an object with the keys of `base` and these."""
    words = {"__doc__": base.__doc__}
    return msgspec.defstruct(name, list(more.items()), bases=(exact(base),), module=__name__, namespace=words)


TransportInLog = added("TransportInLog", Transport, hosts=list[str])


class CheckedLog(Exact):
    """The answer of `check --log --json`."""

    lines: int
    first_failure: FirstFailure | None
    causes: list[CauseInLog]
    transports: list[TransportInLog]  # type: ignore[valid-type]
    findings: list[CheckFinding]


PlanDocument = added("PlanDocument", Plan, schema=Literal[1])
Verdict = Literal["pass", "slow", "broken", "unjudged"]
BenchStart = added("BenchStart", Start, kind=Literal["start"])
BenchRow = added(
    "BenchRow",
    CollectiveRow,
    median_s=float,
    p95_s=float,
    spread=float,
    algbw_gb_s=float,
    busbw_gb_s=Union[float, None],
    judged_verdict=Verdict,
    judged_against=str,
    judged_reason=str,
    judged_expected_gb_s=Union[float, None],
)
BenchAbsent = added("BenchAbsent", Absent, kind=Literal["absent"])
BenchProbe = added("BenchProbe", ProbeResult, kind=Literal["probe"])


class BenchPair(Exact):
    """What two nodes reach with each other."""

    nodes: list[int]
    gb_s: float


class BenchPeak(Exact):
    """The part of a published peak that the middle of the ranks reached."""

    probe: str
    card: str
    value: float
    peak: float
    usual: float
    unit: str
    of_peak: float


class Bench(Exact):
    """The answer of `bench --json`."""

    site: str
    complete: bool
    unreadable_lines: int
    refused: str | None
    start: BenchStart | None  # type: ignore[valid-type]
    rows: list[BenchRow]  # type: ignore[valid-type]
    absent: list[BenchAbsent]  # type: ignore[valid-type]
    pairs: list[BenchPair]
    probes: list[BenchProbe]  # type: ignore[valid-type]
    peaks: list[BenchPeak]
    findings: list[exact(Remark)]  # type: ignore[valid-type]


class Starts(Exact):
    """The answer of `bench --start --json`."""

    starts: list[exact(StartRow)]  # type: ignore[valid-type]


OUTPUTS: dict[str, Any] = {
    "jobs": list[Job],
    "status": list[StatusJob],
    "why": list[WhyJob],
    "logs": Line,
    "cancel": Cancelled,
    "queues": list[Partition],
    "docs": list[Page],
    "site list": list[SiteHead],
    "submit": Submitted,
    "plan": PlanDocument,
    "nodes": list[BadNode],
    "nodes --clear": Cleared,
    "clean": list[Leftover],
    "stage": StagedAt,
    "lint": list[LintFinding],
    "port": Ported,
    "check": Checked,
    "check --log": CheckedLog,
    "stacks": Stacks,
    "site show": SiteShown,
    "site detect": SiteDetected,
    "lab status": LabStatus,
    "bench": Bench,
    "bench --start": Starts,
    "build lock": list[Pin],
}


def schema() -> str:
    """Return the schema: one entry for each verb, and the objects in them."""
    schemas, objects = msgspec.json.schema_components(OUTPUTS.values(), ref_template="#/$defs/{name}")
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What muster VERB --json prints",
        "properties": dict(zip(OUTPUTS, schemas)),
        "$defs": objects,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file, or with --check compare it."""
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != schema())
    PAGE.write_text(schema(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
