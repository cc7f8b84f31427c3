"""plan, submit and job: what the verbs of the same names do, for a program that goes on with their values."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from muster.act.preflight import check_before_start
from muster.act.prepare import plan_for, request_for
from muster.act.rank_library import make_rank_library
from muster.act.record import state_directory
from muster.act.submit import Submission
from muster.api.hints import hints_shown
from muster.api.job import Job
from muster.api.options import Command, read_options
from muster.facts import Facts
from muster.follow.node_memory import leave_out
from muster.look.cluster import cluster_name
from muster.look.probe import look, settings_notes
from muster.model.plan import Engine, Note
from muster.model.plan import Plan as Value
from muster.parts import service
from muster.render.document import plan_as_json
from muster.render.explain import explain, plan_as_text
from muster.render.script import job_script

if TYPE_CHECKING:
    from muster.model.plan import Reason


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
        return tuple(_decision(*row) for row in explain(self.value))

    def explain(self) -> str:
        """Return the reason for every line, as `muster plan --as why` shows it."""
        return plan_as_text(self.value)

    def as_json(self) -> dict[str, Any]:
        """Return it under the keys of `muster plan --as json`."""
        document: dict[str, Any] = json.loads(plan_as_json(self.value))
        return document


def plan(command: Command, /, **options: Any) -> Plan:
    """Return what would happen to the command. Starts nothing, and asks nothing of Slurm."""
    with hints_shown():
        value, *_ = _planned("plan", command, options, excluded=("no_label",))
        return value


def submit(command: Command, /, **options: Any) -> Job:
    """Queue the command as a Slurm job. What the plan warns of is one of Python's warnings, and comes before."""
    with hints_shown():
        submitted_plan, facts, excluded_nodes = _planned(
            "submit", command, options, excluded=("here", "no_label"), avoids=True
        )
        value = submitted_plan.value
        for note in excluded_nodes:
            warnings.warn(note.text, UserWarning, stacklevel=2)
        _warn([*submitted_plan.notes, *check_before_start(value, facts.environment)])
        make_rank_library(value.rank_library)
        _place(value)
        submission = Submission(
            value,
            parent=Path(facts.working_directory) / "muster-runs",
            state=state_directory(facts.environment, facts.home),
            cluster=cluster_name(facts.environment),
            environment=facts.environment,
        ).queue()
        return Job(submission.job, facts.environment, directory=submission.directory)


def job(job_id: str | int, /) -> Job:
    """Return a job that is known by its id: 123, or "123_4" for one of an array. Refused if there is none."""
    with hints_shown():
        result = Job(str(job_id), look().environment)
        result.state()
        return result


def _planned(
    verb: str, command: Command, options: dict[str, Any], *, excluded: Sequence[str], avoids: bool = False
) -> tuple[Plan, Facts, list[Note]]:
    read_request = read_options(verb, command, options, excluded=excluded)
    look_facts = look()
    facts, request = request_for(look_facts, read_request.values, read_request.origins, read_request.command)
    excluded_nodes: list[Note] = []
    if avoids:
        remembered = state_directory(facts.environment, facts.home)
        request, excluded_nodes = leave_out(request, remembered, cluster_name(facts.environment))
    engine = Engine.HERE if request.here else Engine.SLURM
    value = plan_for(request, facts, read_request.typed, engine=engine)
    return Plan(value, (*settings_notes(look_facts), *value.notes)), facts, excluded_nodes


def _decision(section: str, text: str, reason: Reason) -> Decision:
    return Decision(section, text, reason.text, reason.origin)


def _warn(notes: Sequence[Note]) -> None:
    for note in notes:
        if note.warning:
            warnings.warn(note.text, UserWarning, stacklevel=3)


def _place(value: Value) -> None:
    """Write the program of `check`, and pack what is to be staged, where the job will look for them."""
    if value.gate:
        service("gate")(Path(value.gate[1]))
    if value.staging is not None:
        from muster.stage.pack import place_all

        place_all(value.staging, lambda _: None)
