"""Run a plan now: become the script inside an allocation, become salloc around it, or supervise ranks here."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from muster.errors import RequestError
from muster.launchers import launcher_named
from muster.launchers.base import Launcher, Starter
from muster.look.place import scheduler_environment
from muster.model.plan import Plan
from muster.model.words import Fragment, Hidden, Template, Word
from muster.plan.secret import carried
from muster.rank import contract
from muster.render.image import step_words
from muster.render.script import STALE, job_script, prologue_text, told_to_tasks
from muster.runner import Runner, become, run

if TYPE_CHECKING:
    from muster.act.supervise import Outcome

__all__ = ["run_allocated", "run_here", "run_within", "salloc_flags"]

_WORD_BYTES = 120_000
_NOT_FOR_SALLOC = frozenset({"export", "output", "error", "open-mode", "requeue", "no-requeue", "array"})


def run_within(plan: Plan, environment: Mapping[str, str]) -> NoReturn:
    """Over the allocation this process stands in: nothing of Muster stays but the script's shell."""
    _append_errors()
    become(_bash(job_script(plan)), {**environment, **carried(plan)})


def _bash(script: str) -> list[str]:
    """bash with this script: in pieces, since the kernel passes no word of 128 KiB or more."""
    if len(script.encode(errors="surrogateescape")) < _WORD_BYTES:
        return ["bash", "-c", script]
    step = _WORD_BYTES // 4  # a character is at most four bytes
    pieces = [script[start : start + step] for start in range(0, len(script), step)]
    return ["bash", "-c", 'eval "$(printf %s "$@")"', "bash", *pieces]


def run_allocated(plan: Plan, environment: Mapping[str, str], runner: Runner = run) -> NoReturn:
    """In an allocation that salloc asks for, holds while the script runs, and gives back.

    salloc would wait for nodes that will never be, and refuse with status 1 and no hint: sbatch is asked first.
    """
    from functools import partial

    from muster.act.submit import accepted, misfit_of

    clean = scheduler_environment(environment)
    script = job_script(plan)
    answer = runner(["sbatch", "--test-only"], env=clean, cwd=plan.working_directory, stdin=script, timeout_s=30)
    accepted(answer, partial(misfit_of, plan, runner, clean))
    _append_errors()
    become(["salloc", "--quiet", *salloc_flags(plan), *_bash(script)], {**clean, **carried(plan)})


def _append_errors() -> None:
    """Where stderr is a file, let all who write to it do so at its end.

    srun opens it once more for the ranks and appends; the script's own lines, at the place where they were before,
    would overwrite what ranks said.
    """
    try:
        if stat.S_ISREG(os.fstat(2).st_mode):
            import fcntl

            fcntl.fcntl(2, fcntl.F_SETFL, fcntl.fcntl(2, fcntl.F_GETFL) | os.O_APPEND)
    except OSError:  # it is closed, or of a kind that knows no flags
        return


def salloc_flags(plan: Plan) -> list[str]:
    """The header of the job in salloc's words."""
    return [
        f"--{each.name}" if each.value is None else f"--{each.name}={each.value}"
        for each in plan.directives
        if each.name not in _NOT_FOR_SALLOC
    ]


def run_here(plan: Plan, environment: Mapping[str, str]) -> Outcome:
    """On this machine, under our own supervisor; mpirun supervises its ranks itself."""
    from muster.act.supervise import Member, supervise

    clean = {name: value for name, value in environment.items() if name not in STALE}
    launcher = launcher_named(plan.launcher)
    if launcher.starter(plan.engine) is not Starter.MUSTER:
        port = {contract.PORT: str(_port(plan)), contract.PORT_CHOSEN: "1"}
        become(_bash(job_script(plan)), {**clean, **port, **carried(plan)})
    count = launcher.processes_here(plan)
    shared = _shared_environment(plan, clean)
    texts = {Fragment(f'"${each.variable}"'): prologue_text(plan, each) for each in launcher.prologues(plan)}
    argv = tuple(texts[word] if isinstance(word, Fragment) else str(word) for word in step_words(plan))
    members = [Member(index, argv, {**shared, **_place_of(index, plan, count)}) for index in range(count)]
    agents = bool(launcher.agent)
    outcome = supervise(
        members,
        label=launcher.labels_here(plan),
        grace_s=plan.grace_s,
        working_directory=plan.working_directory,
        report=agents,
    )
    return _of_ranks(launcher, outcome) if agents and outcome.first_failed is not None else outcome


def _of_ranks(launcher: Launcher, outcome: Outcome) -> Outcome:
    """Return the outcome with the first failure that an agent reports: an agent's own status says nothing of it."""
    failure = launcher.first_failure(report.splitlines() for report in outcome.reports)
    if failure is None or failure.status is None:
        return outcome
    return replace(outcome, status=failure.status, first_failed=failure.tasks[0] if failure.tasks else None)


def _shared_environment(plan: Plan, environment: Mapping[str, str]) -> dict[str, str]:
    """What all processes get: this machine's environment, the plan's variables, and what they check their start by."""
    job = f"here-{os.getpid()}"
    known = {
        "job_id": job,
        "run_dir": f"{plan.working_directory}/muster-runs/{job}",
        "node_tmp": environment.get("TMPDIR", "/tmp"),  # noqa: S108  # what POSIX names
    }
    result = dict(environment)
    for variable in plan.variables:
        if variable.value is None and not variable.pass_on:
            result = {name: value for name, value in result.items() if not fnmatchcase(name, variable.name)}
        elif variable.value is not None:
            value = variable.value
            result[variable.name] = _filled(value, known)
    if plan.rank_library is not None:
        result["PYTHONPATH"] = ":".join(filter(None, [result.get("PYTHONPATH"), plan.rank_library]))
    shape = plan.shape
    result.update({name: value for name, value in told_to_tasks(plan).items() if isinstance(value, str)})
    result.update(
        {
            contract.JOB: job,
            contract.RUN_DIRECTORY: known["run_dir"],
            contract.EXPECTED_TASKS: str(shape.ntasks),
            contract.TASKS_PER_NODE: str(shape.ntasks_per_node),
            contract.EXPECTED_CPUS: str(shape.cpus_per_task or 0),
            contract.PORT: str(_port(plan)),
            contract.PORT_CHOSEN: "1",
        }
    )
    return result


def _filled(value: Word, known: Mapping[str, str]) -> str:
    if isinstance(value, Hidden):
        return value.text
    return value.filled(known) if isinstance(value, Template) else str(value)


def _place_of(index: int, plan: Plan, count: int) -> dict[str, str]:
    """What the supervisor says of one process: ranks are dealt to the (simulated) nodes in blocks."""
    per_node = count // plan.shape.nodes
    return {
        contract.LOCAL_PROCID: str(index),
        contract.LOCAL_LOCALID: str(index % per_node),
        contract.LOCAL_NODEID: str(index // per_node),
        contract.LOCAL_NNODES: str(plan.shape.nodes),
        contract.LOCAL_NTASKS: str(plan.shape.ntasks_per_node),
    }


def _port(plan: Plan) -> int:
    """The port that was asked for, or one of the range that nobody holds at this moment."""
    if plan.rendezvous.port is not None:
        return plan.rendezvous.port
    import socket

    low, high = plan.rendezvous.port_low, plan.rendezvous.port_high
    first = int.from_bytes(os.urandom(4), "big")
    for step in range(min(high - low + 1, 256)):
        port = low + (first + step) % (high - low + 1)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise RequestError(f"no free port between {low} and {high}", hint="give another range with --port-range")
