"""How large a run over a standing allocation is: what was not asked for is what the allocation has."""

from __future__ import annotations

from msgspec.structs import replace

from muster.errors import MusterError, RequestError
from muster.facts import Facts
from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.runner import Runner, run
from muster.slurm.granted import Granted, read_granted


def sized_by_allocation(request: Request, facts: Facts, runner: Runner = run) -> Request:
    """Return all nodes of the allocation, its ranks, its GPUs and its CPUs, unless the request says otherwise."""
    granted = read_granted(facts.environment)
    refuse_parts(granted)
    tasks = granted.asked_tasks_per_node
    if not (request.given("ntasks_per_node") or request.given("gpus_per_node") or tasks):
        tasks = _tasks(granted)
    if request.given("gpus_per_node"):
        tasks = None
    free = tasks is None and not request.given("ntasks_per_node")
    gpus = request.gpus_per_node
    if not request.given("gpus_per_node"):
        gpus = _gpus(granted, runner if free else None)
    cpus = granted.cpus_per_task
    if request.given("ntasks_per_node"):
        cpus = None  # another division of the node than the header's: its CPUs per task do not follow from it
    elif free:
        cpus = _share(gpus or 1, granted)
    sizes = {
        "nodes": _nodes(request, granted),
        "ntasks_per_node": tasks,
        "gpus_per_node": gpus,
        "cpus_per_task": cpus,
    }
    new_sizes = {field: value for field, value in sizes.items() if value is not None and not request.given(field)}
    origins = {**request.origins, **dict.fromkeys(new_sizes, ValueOrigin(OriginKind.ALLOCATION, "the allocation"))}
    return _possible(replace(request, origins=origins, **new_sizes), granted)


def refuse_parts(granted: Granted) -> None:
    """Refuse a heterogeneous allocation: it has several sizes, and its variables are those of its first part."""
    if granted.part_count > 1:
        raise RequestError(
            f"job {granted.job} is heterogeneous ({granted.part_count} parts): a run starts in one part only, "
            "with as many ranks on every node",
            hint="allocate nodes of one kind; or write the srun line yourself: srun --het-group=0,1 …",
        )


def _nodes(request: Request, granted: Granted) -> int | None:
    """Return the number of nodes of the allocation, less what -w and -x exclude."""
    wanted_list = request.nodelist if request.typed("nodelist") else None
    away = request.exclude if request.typed("exclude") else None
    if not granted.node_list or (wanted_list is None and away is None):
        return granted.node_count
    from muster.rank.hostlist import expand

    node_names = expand(granted.node_list)
    wanted_names = expand(wanted_list) if wanted_list else node_names
    missing = [name for name in wanted_names if name not in node_names]
    if missing:
        raise RequestError(
            f"{request.origin('nodelist')}: {', '.join(missing[:3])} is not in this allocation ({granted.node_list})",
            hint="name nodes of it, or type it outside of the allocation",
        )
    node_count = len(set(wanted_names) - set(expand(away or "")))
    if node_count == 0:
        raise RequestError(
            f"{request.origin('exclude')} excludes every node of this allocation ({granted.node_list})",
            hint="exclude fewer nodes",
        )
    return node_count


def _tasks(granted: Granted) -> int | None:
    """Return the tasks of a node where only their sum was asked for (salloc -n 4)."""
    if granted.asked_tasks is None:
        return None
    tasks = granted.tasks_of_nodes
    if len(set(tasks)) > 1:
        raise RequestError(
            f"this allocation has {granted.asked_tasks} tasks, and not the same number on each node "
            f"({granted.tasks_per_node}): Muster starts as many ranks on every node",
            hint=f"--ntasks-per-node {min(tasks)}; or allocate with --ntasks-per-node",
        )
    return tasks[0] if tasks else None


def _gpus(granted: Granted, runner: Runner | None) -> int | None:
    """Return the GPUs of a node. salloc's shell knows them where --gpus-per-node asked for them.

    --gres leaves no variable.
    """
    if granted.gpus_on_node or granted.is_node:
        return granted.gpus_on_node
    if granted.asked_gpus_per_node or runner is None:
        return granted.asked_gpus_per_node
    if granted.asked_gpus and granted.node_count != 1:
        raise RequestError(
            f"this allocation has {granted.asked_gpus} GPUs in all, but it is not known on which nodes",
            hint="-g GPUS_PER_NODE, or --ntasks-per-node RANKS; --gpus-per-node allocates the same number on each",
        )
    return granted.asked_gpus or _gpus_by_asking(granted.job, runner)


def _gpus_by_asking(job: str, runner: Runner) -> int | None:
    from muster.slurm.cluster import ask_gpus_of

    question = ask_gpus_of(job)
    try:
        answer = runner(question.argv, timeout_s=5)
    except MusterError:
        return None
    return question.read(answer.stdout) if answer.ok else None


def _share(ranks: int, granted: Granted) -> int | None:
    """Return each rank's share of -c 32 that was asked for one task: of four ranks on the node each has eight."""
    asked, cpus = granted.cpus_per_task, granted.cpus_of_nodes
    return asked if asked is None or not cpus else max(1, min(asked, min(cpus) // ranks))


def _possible(request: Request, granted: Granted) -> Request:
    """Refuse ranks that do not fit: srun would report it with other words, or fill the larger of two nodes."""
    cpus = sorted(granted.cpus_of_nodes)[-(request.nodes or 1) :]
    ranks, cpus_each = request.ntasks_per_node or request.gpus_per_node or 1, request.cpus_per_task or 1
    cpus_needed = (request.nodes or 1) * ranks * cpus_each
    if cpus and cpus_needed > sum(cpus) and not {"--overcommit", "-O"} & set(request.srun):
        nodes = f"{request.nodes} node{'s' * (request.nodes != 1)}"
        raise RequestError(
            f"{nodes} × {ranks} ranks × {cpus_each} CPUs = {cpus_needed} CPUs, but this allocation has "
            f"{sum(cpus)} there",
            hint=f"allocate with --ntasks-per-node {ranks} -c {cpus_each}, or give --ntasks-per-node and -c that fit",
        )
    return request
