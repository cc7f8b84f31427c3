"""plan, submit and job: what the verbs of the same names do, for a program that goes on with their values."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any, Literal, overload

import msgspec
from msgspec.structs import replace

from muster.act.prepare import plan_for, request_for
from muster.api.hints import hints_shown
from muster.api.job import Job
from muster.api.local import LocalJob
from muster.api.options import Command, read_options
from muster.errors import RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.look.probe import look, settings_notes
from muster.model.plan import Engine, Note
from muster.model.plan import Plan as Value
from muster.render.document import plan_as_json
from muster.render.explain import explain, plan_as_text
from muster.render.script import job_script
from muster.start import prepare_job, prepare_run, queue


class Decision(msgspec.Struct, frozen=True):
    """One thing that the plan decided, and why."""

    section: str
    text: str
    reason: str
    origin: str
    """Who wanted it: muster, the site, an option, a settings file and its line."""


class Plan(msgspec.Struct, frozen=True):
    """What would happen: the same plan that the command line shows."""

    value: Value
    """The plan itself, in all its parts."""

    notes: tuple[Note, ...] = ()
    """What to know before it is submitted; `.warning` tells the grave ones."""

    @property
    def script(self) -> str:
        """Return the script that submit would queue, byte for byte."""
        return job_script(self.value)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Return every decision with its reason, as values."""
        rows = explain(self.value)
        return tuple(Decision(section, text, reason.text, reason.origin) for section, text, reason in rows)

    def explain(self) -> str:
        """Return the reason for every line, as `muster plan --as why` shows it."""
        return plan_as_text(self.value)

    def as_json(self) -> dict[str, Any]:
        """Return it under the keys of `muster plan --as json`."""
        document: dict[str, Any] = json.loads(plan_as_json(self.value))
        return document


def plan(command: Command | None = None, /, **options: Any) -> Plan:
    """Return what would happen to the command, or to the programs that roles={…} names.

    Starts nothing; Slurm is asked once an hour what the cluster is.
    """
    with hints_shown():
        asked = _asked("plan", command, options)
        engine = Engine.HERE if asked.request.here else Engine.SLURM
        value = plan_for(asked.request, asked.facts, asked.typed, engine=engine)
        return Plan(value, (*asked.notes, *value.notes))


@overload
def submit(command: Command | None = None, /, *, here: Literal[True], **options: Any) -> LocalJob: ...
@overload
def submit(command: Command | None = None, /, *, here: Literal[False] | None = None, **options: Any) -> Job: ...
@overload
def submit(command: Command | None = None, /, **options: Any) -> Job: ...
def submit(command: Command | None = None, /, **options: Any) -> Job | LocalJob:
    """Queue the command as a Slurm job; with here=True start it on this machine. Both have the same result.

    What the plan warns of is one of Python's warnings, and comes before.
    """
    with hints_shown():
        asked = _asked("submit", command, options)
        if asked.request.here:
            return _start_here(asked)
        prepared = prepare_job(asked.request, asked.facts, asked.typed)
        for note in prepared.excluded:
            warnings.warn(note.text, UserWarning, stacklevel=2)
        _warn([*asked.notes, *prepared.notes])
        submission = queue(prepared)
        return Job(submission.job, asked.facts.environment, directory=submission.directory)


def _start_here(asked: _Asked) -> LocalJob:
    from muster.look.place import RunPlace

    if asked.request.sweep is not None:
        message = "sweep: its rows become tasks of an array, which waits in Slurm's queue, and here=True starts one run"
        raise RequestError(message, hint="omit here=True, or submit each row by itself")
    prepared = prepare_run(asked.request, asked.facts, asked.typed, RunPlace.HERE)
    _warn([*asked.notes, *prepared.notes])
    return LocalJob(prepared.plan, asked.facts.environment, asked.typed)


def job(job_id: str | int, /) -> Job:
    """Return a job that is known by its id: 123, or "123_4" for one of an array. Refused if there is none."""
    with hints_shown():
        result = Job(str(job_id), look().environment)
        result.state()
        return result


class _Asked(msgspec.Struct, frozen=True):
    """What Python asks for, and where."""

    request: Request
    facts: Facts
    typed: tuple[str, ...]
    """The same, as it would be typed."""

    notes: tuple[Note, ...]
    """What to know of the settings files."""


def _asked(verb: str, command: Command | None, options: dict[str, Any]) -> _Asked:
    read_request = read_options(verb, command, options)
    look_facts = replace(look(), table=read_request.table)
    facts, request = request_for(look_facts, read_request.values, read_request.origins, read_request.command)
    return _Asked(request, facts, tuple(read_request.typed), tuple(settings_notes(look_facts)))


def _warn(notes: Sequence[Note]) -> None:
    for note in notes:
        if note.warning:
            warnings.warn(note.text, UserWarning, stacklevel=3)
