"""Run the ranks of a plan on this machine: what each of them is told, and how they ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from fnmatch import fnmatchcase

from msgspec.structs import replace

from muster.act.supervise import Member, Outcome, supervise
from muster.errors import RequestError
from muster.launchers import launcher_named
from muster.launchers.base import Launcher, Starter
from muster.model.plan import Plan
from muster.model.words import Fragment, Hidden, Template, Word
from muster.rank import contract
from muster.rank.vendors import vendor_here
from muster.render.image import step_words
from muster.render.own_text import prologue_text, stale_names
from muster.render.told import told_to_tasks

# Ranks here run as whoever typed it, root in a container among them; Open MPI wants to be told so, twice.
_OPEN_MPI_AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


def run_here(plan: Plan, environment: Mapping[str, str]) -> Outcome:
    """Run the ranks on this machine under Muster's own supervisor; mpirun supervises its ranks itself."""
    stale = set(stale_names(plan))
    clean = {name: value for name, value in environment.items() if name not in stale}
    launcher = launcher_named(plan.launcher)
    if launcher.starter(plan.engine) is not Starter.MUSTER:
        from muster.act.launch import run_within

        port = {contract.PORT: str(_port(plan)), contract.PORT_CHOSEN: "1"}
        as_root = dict.fromkeys(_OPEN_MPI_AS_ROOT, "1") if os.geteuid() == 0 else {}
        return Outcome(run_within(plan, {**as_root, **clean, **port}).status, None)
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
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def somebody_met(port: int) -> bool:
    """Return whether there is, or was within the last minute, a connection to `port` of this machine; True: unknown."""
    ending = f":{port:04X}"
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as stream:
                rows = [line.split() for line in stream.read().splitlines()[1:]]
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
        if variable.value is None:
            result = {name: value for name, value in result.items() if not fnmatchcase(name, variable.name)}
        else:
            result[variable.name] = _filled(variable.value, known)
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
    from _socket import socket  # `socket` makes an enum of each family and option: as much as thirty of our modules

    low, high = plan.rendezvous.port_low, plan.rendezvous.port_high
    first = int.from_bytes(os.urandom(4), "big")
    for step in range(min(high - low + 1, 256)):
        port = low + (first + step) % (high - low + 1)
        with closing(socket()) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise RequestError(f"no free port between {low} and {high}", hint="give another range with --port-range")
