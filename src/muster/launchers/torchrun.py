"""torchrun: one agent on each node, started by srun; the agents meet on the first host and start the ranks.

No --node-rank (it is inert with c10d), an id from job, step and restart, and the host of the meeting point is
told that it is the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from muster.launchers.base import (
    KEEPER,
    RANK,
    WORKER,
    Launcher,
    Part,
    Prologue,
    Wrap,
    door_prologues,
    door_text,
    identity_part,
    is_role,
    place_parts,
    prologue_words,
    step_parts,
)
from muster.launchers.local import lines_here
from muster.launchers.mpirun import KEEP_REPORT, REPORT_KEPT, ByMpirun, failure_of, report_parts, watch_parts
from muster.launchers.srun import output_parts, step_flags, step_words
from muster.model.failure import Failure, of_agent
from muster.model.plan import Engine, Flag, Output, Plan, Reason
from muster.model.words import Fragment, Word
from muster.units import whole_number

_ROOT_CAUSE = "Root Cause (first observed failure):"
_FIELD = re.compile(r"^\s+(?P<name>time|host|rank|exitcode)\s+: (?P<value>\S+)")
_SIGTERM_STATUS = 128 + 15


def _prologues(plan: Plan, identity: Part, last: Part) -> tuple[Prologue, ...]:
    """Return the agent's prologue, checked first or not, and that of its ranks."""
    port: tuple[Part, ...] = ("role_port",) if is_role(plan) else ()
    worker: tuple[Part, ...] = ("worker_door",) if plan.rendezvous.closed else ()
    door: tuple[Part, ...] = ("python", "door", "agent_door") if plan.rendezvous.closed else ()
    start = (*place_parts(plan), *port, "agent", *(("checked_agent",) if plan.gate else ()), *door)
    agent = Prologue(
        RANK,
        ("stop", "meeting"),
        step_parts(plan, identity),
        start,
        ("agent_words", "ends", "left", "stay", last),
    )
    keeper = Prologue(KEEPER, last=("agent_keeper.py",))
    return (
        agent,
        keeper,
        *door_prologues(plan),
        Prologue(WORKER, start=(*worker, "slurm_names", "jax_beside_agent", "jax"), last=("worker",)),
    )


def agent_words(plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
    """Return one agent, its keeper and its ranks, all in the image.

    The agents are checked, not the ranks: an agent's own store holds the port as soon as there are any.
    """
    keeper = (*plan.agent, "-I", "-S", "-c", Fragment(f'"${KEEPER}"'), "label" if plan.label else "plain")
    python = wrap((*plan.gate, *keeper))
    agent = (*python, *prologue_words(WORKER, plan.command))
    return prologue_words(RANK, (*door_text(plan), *agent))


class _OfTorchrun(Launcher):
    """What all launchers of torchrun's agents have in common."""

    agent = "torchrun"
    closes = True
    tells_failure = "torchrun"
    keeps_signals = "torchrun's agents, which it ends with their ranks"
    needs_sh_in_image = "torchrun starts its ranks in the image"
    many_nodes_note = (
        "torchrun orders its agents by host name: rank 0 is on the first host where names have the same width"
    )

    def first_failure(self, outputs: Iterable[Iterable[str]]) -> Failure | None:
        """Return the earliest failure of any node; an ending by SIGTERM is one only if there is no other."""
        reports = [report for lines in outputs if (report := torchrun_failure(lines))]
        if not reports:
            return None
        return min(reports, key=lambda report: (report[1].status == _SIGTERM_STATUS, report[0]))[1]


class Torchrun(_OfTorchrun):
    """An agent per node, which starts the ranks."""

    name = "torchrun"
    engines = frozenset({Engine.SLURM, Engine.HERE})

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        return _prologues(plan, identity_part(plan), "go_agent")

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        if plan.engine is Engine.HERE:
            return ()
        cpus = '"$((muster_cpus_per_task * muster_ntasks_per_node))"' if plan.shape.cpus_per_task else None
        return (
            *step_flags(plan, tasks_per_node="1", cpus=cpus, label=False),
            Flag("--input=all", Reason("torchrun decides which agent starts rank 0; that rank alone reads the input")),
        )

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        agent = agent_words(plan, wrap)
        return agent if plan.engine is Engine.HERE else ("srun", *(flag.word for flag in self.flags(plan)), *agent)

    def parts(self, plan: Plan) -> tuple[Part, ...]:
        if plan.engine is Engine.HERE:
            return ()
        reported: tuple[Part, ...] = ("reported",) if plan.output is not Output.STREAM else ()
        return ("report", *output_parts(plan), *reported, "watch", "torchrun_status")

    def step(self, plan: Plan, words: tuple[Word, ...]) -> Iterator[str]:
        """Yield the step with torchrun's report passed through the script.

        Its own status tells nothing of its ranks.
        """
        if plan.engine is Engine.HERE:
            yield from lines_here(plan, words, self.processes_here(plan))
            return
        if plan.output is not Output.STREAM:
            yield from step_words(plan, words, "muster_step_reported")
            yield 'muster_torchrun_status ${muster_report:+"$muster_report"} "$muster_logs"/*.log'
            return
        yield "muster_keep_report"
        yield from step_words(plan, (*words, KEEP_REPORT))
        yield from (REPORT_KEPT, 'muster_torchrun_status "$muster_report"')

    def processes_here(self, plan: Plan) -> int:
        return plan.shape.nodes

    def rank_by_rank(self, engine: Engine) -> str | None:
        """Return why it has no form without its agent, which holds the port at which the ranks of a check meet."""
        return "srun" if engine is Engine.SLURM else "local"


class MpirunTorchrun(_OfTorchrun, ByMpirun):
    """mpirun starts one agent on each node: for sites where mpirun reaches nodes that srun's step does not."""

    name = "mpirun+torchrun"
    keeps_signals = ByMpirun.keeps_signals
    tells_failure = _OfTorchrun.tells_failure
    reads_status = "muster_torchrun_status"

    def prologues(self, plan: Plan) -> tuple[Prologue, ...]:
        return _prologues(plan, "rank_mpi", "go_mpi_agent")

    def flags(self, plan: Plan) -> tuple[Flag, ...]:
        del plan
        return (
            Flag(Fragment('-np "$muster_nodes"'), Reason("one agent on each node")),
            Flag(Fragment('"${muster_mpirun_agents[@]}"'), Reason("the hosts, and the variables for every host")),
        )

    def words(self, plan: Plan, wrap: Wrap) -> tuple[Word, ...]:
        return ("mpirun", *(flag.word for flag in self.flags(plan)), *agent_words(plan, wrap))

    def parts(self, plan: Plan) -> tuple[Part, ...]:
        return (*report_parts(plan), "torchrun_status", "mpirun", "hydra_watch", *watch_parts(plan))

    def first_failure(self, outputs: Iterable[Iterable[str]]) -> Failure | None:
        """Return what an agent reports; where agents were only told to end, what mpirun says of its daemons."""
        texts = list(outputs)
        failure = super().first_failure(texts)
        if failure is not None and failure.status != _SIGTERM_STATUS:
            return failure
        return of_agent(ByMpirun.first_failure(self, texts), self.agent) or failure

    def rank_by_rank(self, engine: Engine) -> str | None:
        del engine
        return "mpirun"


def torchrun_failure(lines: Iterable[str]) -> tuple[str, Failure] | None:
    """Return (time, failure) of torchrun's report, if one stands in these lines."""
    fields: dict[str, str] | None = None
    first_line = ""
    for text in lines:
        if text.startswith(_ROOT_CAUSE):
            fields, first_line = {}, text
        match = _FIELD.match(text) if fields is not None else None
        if match is None or fields is None:
            continue
        fields.setdefault(match["name"], match["value"])
        if {"time", "host", "rank", "exitcode"} <= fields.keys():
            return fields["time"], _of_torchrun(fields, first_line)
    return None


def _of_torchrun(fields: dict[str, str], text: str) -> Failure:
    code = int(fields["exitcode"]) if re.fullmatch(r"-?[0-9]{1,9}", fields["exitcode"]) else None
    status = None if code is None else 128 - code if code < 0 else code
    rank = whole_number(fields["rank"])
    return failure_of(rank, fields["host"], status, text)
