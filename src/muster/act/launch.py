"""Run a plan now: its script inside an allocation, or in one that salloc holds around it; or ranks here."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from muster.errors import RequestError, SiteError
from muster.launchers import launcher_named
from muster.launchers.base import Launcher, Starter
from muster.model.plan import Plan
from muster.model.words import Fragment, Hidden, Template, Word
from muster.plan.secret import variables_to_hand_over
from muster.rank import contract
from muster.rank.vendors import vendor_here
from muster.render.image import step_words
from muster.render.own_text import STALE, prologue_text
from muster.render.script import job_script, told_to_tasks
from muster.runner import become, run
from muster.slurm.allocation import hold_nodes
from muster.slurm.variables import scheduler_environment

if TYPE_CHECKING:
    from muster.act.keep import Kept
    from muster.act.supervise import Outcome

# Ranks here run as whoever typed it, root in a container among them; Open MPI wants to be told so, twice.
_OPEN_MPI_AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
# Beyond the grace time that the ranks have, for launchers to report.
_REPORT_S = 3.0


def run_within(plan: Plan, environment: Mapping[str, str], say: Callable[[str], None] = lambda _: None) -> Kept:
    """Run the script over the allocation that this process stands in, and return what became of it."""
    from muster.act.keep import keep

    given = {**environment, **variables_to_hand_over(plan)}
    patience_s = plan.grace_s + _REPORT_S
    return keep(job_script(plan), given, patience_s=patience_s, in_pieces=_is_in_pieces(plan), say=say)


def _is_in_pieces(plan: Plan) -> bool:
    return plan.label and launcher_named(plan.launcher).labels_pieces


def run_allocated(
    plan: Plan,
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None],
    wait_words: Callable[[str], str],
) -> Kept:
    """Run the script in an allocation that salloc asks for, holds while the script runs, and gives back.

    `wait_words` says why a job waits; `say` is told that, and where the job runs.
    """
    from muster.act.keep import KeepSettings, keep_allocated
    from muster.slurm.submit import parse_rejection

    clean, script = _asked_before(plan, environment, say)
    kept, refusal = keep_allocated(
        hold_nodes(plan.directives),
        script,
        {**clean, **variables_to_hand_over(plan)},
        KeepSettings(
            plan.grace_s + _REPORT_S,
            say,
            wait_words,
            steps_of_slurm=launcher_named(plan.launcher).starter(plan.engine) is Starter.STEP,
            in_pieces=_is_in_pieces(plan),
        ),
    )
    if not kept.started and kept.signal is None:
        from muster.act.refusal import silence_of
        from muster.slurm.silence import is_silent

        words = "\n".join(refusal)
        if is_silent(words) or not words.strip():
            raise silence_of("salloc", kept.status, words)
        rejection = parse_rejection(words)
        raise SiteError(rejection.sentence, hint=rejection.hint)
    return kept


def _asked_before(plan: Plan, environment: Mapping[str, str], say: Callable[[str], None]) -> tuple[dict[str, str], str]:
    """Return the environment for Slurm's clients, and the script.

    salloc would wait for nodes that will never be, and refuse with status 1 and no hint: sbatch is asked first.
    """
    from muster.act.refusal import check_taken, misfit_of
    from muster.slurm.submit import ask_whether_taken

    clean = scheduler_environment(environment)
    script = job_script(plan)
    trial = partial(run, ask_whether_taken().argv, env=clean, cwd=plan.working_directory, stdin=script, timeout_s=30)
    check_taken(trial, partial(misfit_of, plan, run, clean), say)
    return clean, script


def become_shell(
    plan: Plan,
    environment: Mapping[str, str],
    *,
    within: bool,
    say: Callable[[str], None],
) -> NoReturn:
    """Become the script of a shell: nothing of Muster stays between the shell and its terminal."""
    from muster.act.keep import script_in_memory

    _append_errors()
    if within:
        clean, script, before = dict(environment), job_script(plan), []
    else:
        clean, script = _asked_before(plan, environment, say)
        before = hold_nodes(plan.directives, quiet=True)
    memory = script_in_memory(script)
    os.dup2(memory, 3)
    os.set_inheritable(3, True)  # dup2 does not where the memory is number 3 itself
    become([*before, "bash", "/dev/fd/3"], {**clean, **variables_to_hand_over(plan)})


def _append_errors() -> None:
    """Let all who write to stderr do so at its end, where stderr is a file.

    srun opens it once more for the ranks and appends; the script's own lines, at the place where they were before,
    would overwrite what ranks said.
    """
    try:
        if stat.S_ISREG(os.fstat(2).st_mode):
            import fcntl

            fcntl.fcntl(2, fcntl.F_SETFL, fcntl.fcntl(2, fcntl.F_GETFL) | os.O_APPEND)
    except OSError:  # it is closed, or of a kind that knows no flags
        return


def run_here(plan: Plan, environment: Mapping[str, str]) -> Outcome:
    """Run the ranks on this machine under Muster's own supervisor; mpirun supervises its ranks itself."""
    from muster.act.supervise import Member, Outcome, supervise

    clean = {name: value for name, value in environment.items() if name not in STALE}
    launcher = launcher_named(plan.launcher)
    if launcher.starter(plan.engine) is not Starter.MUSTER:
        from muster.act.keep import keep

        port = {contract.PORT: str(_port(plan)), contract.PORT_CHOSEN: "1"}
        as_root = dict.fromkeys(_OPEN_MPI_AS_ROOT, "1") if os.geteuid() == 0 else {}
        given = {**as_root, **clean, **port, **variables_to_hand_over(plan)}
        kept = keep(job_script(plan), given, patience_s=plan.grace_s + _REPORT_S, in_pieces=_is_in_pieces(plan))
        return Outcome(kept.status, None)
    count = launcher.processes_here(plan)
    shared = _shared_environment(plan, clean)
    texts = {Fragment(f'"${each.variable}"'): prologue_text(plan, each) for each in launcher.prologues(plan)}
    argv = tuple(texts[word] if isinstance(word, Fragment) else str(word) for word in step_words(plan))
    members = [Member(index, argv, {**shared, **_place_of(index, plan, count)}) for index in range(count)]
    agents = bool(launcher.agent)
    meeting = int(members[0].environment[contract.PORT])
    outcome = supervise(
        members,
        label=launcher.labels_here(plan),
        grace_s=plan.grace_s,
        working_directory=plan.working_directory,
        report=agents,
    )
    if plan.may_be_alone and outcome.status == 0 and not somebody_met(meeting):
        return replace(outcome, unmet=f"127.0.0.1:{meeting}")
    return _of_ranks(launcher, outcome) if agents and outcome.first_failed is not None else outcome


_LISTENS = "0A"


def somebody_met(port: int) -> bool:
    """Return whether there is, or was within the last minute, a connection to `port` of this machine; True: unknown."""
    ending = f":{port:04X}"
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            rows = [line.split() for line in table.read_text().splitlines()[1:]]
        except OSError:
            return True
        if any(ending in (row[1][-5:], row[2][-5:]) and row[3] != _LISTENS for row in rows):
            return True
    return False


def _of_ranks(launcher: Launcher, outcome: Outcome) -> Outcome:
    """Return the outcome with the first failure that an agent reports: an agent's own status says nothing of it."""
    failure = launcher.first_failure(report.splitlines() for report in outcome.reports)
    if failure is None or failure.status is None:
        return outcome
    return replace(outcome, status=failure.status, first_failed=failure.tasks[0] if failure.tasks else None)


def _shared_environment(plan: Plan, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what all processes get.

    This machine's environment, the plan's variables, and what they check their start by.
    """
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
    if plan.ready is not None:
        result["PYTHONPATH"] = ":".join(filter(None, [plan.ready, result.get("PYTHONPATH")]))
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
    if plan.visibility == "one" and shape.gpus_per_node:
        result.update(_numbered_gpus(shape.gpus_per_node, result))
    if plan.rendezvous.closed:
        result[contract.DOOR_KEY] = os.urandom(32).hex()
    return result


def _numbered_gpus(count: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that numbers this machine's GPUs, as Slurm sets it elsewhere; empty where one is set."""
    vendor = vendor_here()
    if vendor is None or any(environment.get(name) for name in vendor.visible):
        return {}
    return {vendor.visible[0]: ",".join(map(str, range(count)))}


def _filled(value: Word, known: Mapping[str, str]) -> str:
    if isinstance(value, Hidden):
        return value.text
    return value.filled(known) if isinstance(value, Template) else str(value)


def _place_of(index: int, plan: Plan, count: int) -> dict[str, str]:
    """Return what the supervisor says of one process: ranks are dealt to the (simulated) nodes in blocks."""
    per_node = count // plan.shape.nodes
    return {
        contract.LOCAL_PROCID: str(index),
        contract.LOCAL_LOCALID: str(index % per_node),
        contract.LOCAL_NODEID: str(index // per_node),
        contract.LOCAL_NNODES: str(plan.shape.nodes),
        contract.LOCAL_NTASKS: str(plan.shape.ntasks_per_node),
    }


def _port(plan: Plan) -> int:
    """Return the port that was asked for, or one of the range that nobody holds at this moment."""
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
