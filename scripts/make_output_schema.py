"""Write docs/reference/output.schema.json, which describes what `--json` prints; `--check` compares.

The types stand here, and tests read real outputs with them: a key too many, one that lacks, or another type fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "output.schema.json"
Phase = Literal["waiting", "running", "ended well", "ended badly", "ended", "unknown"]
Clears = Literal["by itself", "when you change the job", "when the site's staff act", "unknown"]


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


OUTPUTS: dict[str, Any] = {
    "jobs": list[Job],
    "status": list[StatusJob],
    "why": list[WhyJob],
    "logs": Line,
    "cancel": Cancelled,
    "queues": list[Partition],
    "docs": list[Page],
    "site list": list[SiteHead],
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
