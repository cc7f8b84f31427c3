"""What the tests of this room share: the reference scripts, and a script carried to a site."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from muster.sites.site import Site
from muster_lint.job import BatchScript
from muster_lint.launch import Stage
from muster_lint.port.carry import carry
from muster_lint.port.expand import values_of
from muster_lint.port.origin import guess_origin
from muster_lint.port.read import read_draft_of, unread
from muster_lint.port.step import chain_of
from muster_lint.port.target import Carried, facts_of
from muster_lint.port.values import Draft
from muster_lint.read import FileKind, SourceFile
from sites.profiles import SITES, bundled

__all__ = ["FACTS", "HOMES", "REFERENCE", "carried", "lacking", "origin_of", "read"]

FOLDER = Path(__file__).parent / "reference"
REFERENCE = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.sh"))}
"""The scripts of the five reference documents, by the site that each was written for (one names none)."""

HOMES = ("horeka", "supercloud", "marenostrum5", "clariden", "lumi")
"""The sites of the reference documents: the second was to become one for Clariden."""

FACTS = facts_of("/home/ada/project", "/home/ada", "ada")


def read(text: str, kind: FileKind = FileKind.BATCH) -> tuple[BatchScript, Draft]:
    """Return a text as a job, and what it means."""
    return read_draft_of(SourceFile("job.sh", text, kind))


@cache
def _sites() -> tuple[Site, ...]:
    return tuple(bundled(name) for name in SITES)


def origin_of(text: str) -> Site | None:
    """Return the site that the names in a script are of."""
    found = guess_origin(read(text)[0], _sites())
    return found[0] if found else None


def carried(text: str, site: str, source: str | None = None) -> Carried:
    """Return a script carried to a site."""
    origin = bundled(source) if source else origin_of(text)
    return carry(read(text)[1], bundled(site), origin, FACTS)


def lacking(job: BatchScript, draft: Draft) -> list[str]:
    """Return what the table does not speak of: commands, variables, directives, and flags of the launch."""
    said = "\n".join(row.what for row in draft.rows)
    values = values_of(job.shell)
    started = {row.line for row in draft.rows if row.field in {"started", "launcher"}}
    flags = [
        name
        for command in job.shell.commands
        if command.place.line in started
        for stage in chain_of(command, values).stages
        for name in _flags_of(stage)
    ]
    return [*unread(job, draft), *(flag for flag in flags if not re.search(rf"{re.escape(flag)}\b", said))]


def _flags_of(stage: Stage) -> list[str]:
    return [name for name, _ in stage.options] if stage.kind in {"step", "mpi", "agent", "container"} else []
