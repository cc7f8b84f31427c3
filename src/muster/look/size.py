"""How large a run over a standing allocation is: what was not asked for is what the allocation has."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from muster.errors import MusterError, RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.rank.hostlist import expand
from muster.runner import Runner, run
from muster.units import whole_number

__all__ = ["sized_by_allocation"]


def sized_by_allocation(request: Request, facts: Facts, runner: Runner = run) -> Request:
    """Return all nodes of the allocation, its ranks, its GPUs and its CPUs, unless the request says otherwise."""
    environment = facts.environment
    _refuse_parts(environment)
    tasks = _count(environment.get("SLURM_NTASKS_PER_NODE"))
    if not (request.given("ntasks_per_node") or request.given("gpus_per_node") or tasks):
        tasks = _tasks(environment)
    if request.given("gpus_per_node"):
        tasks = None
    free = tasks is None and not request.given("ntasks_per_node")
    gpus = request.gpus_per_node
    if not request.given("gpus_per_node"):
        gpus = _gpus(environment, runner if free else None)
    cpus = _count(environment.get("SLURM_CPUS_PER_TASK"))
    if request.given("ntasks_per_node"):
        cpus = None  # another division of the node than the header's: its CPUs per task do not follow from it
    elif free:
        cpus = _share(gpus or 1, cpus, environment)
    nodes = _nodes(request, environment)
    sizes = {"nodes": nodes, "ntasks_per_node": tasks, "gpus_per_node": gpus, "cpus_per_task": cpus}
    new_sizes = {field: value for field, value in sizes.items() if value is not None and not request.given(field)}
    origins = {**request.origins, **dict.fromkeys(new_sizes, "the allocation")}
    return _possible(replace(request, origins=origins, **new_sizes), environment)


# More are of no cluster: a variable that says so is damaged, and the list would take all memory.
_MOST_NODES = 1 << 20


def _refuse_parts(environment: Mapping[str, str]) -> None:
    """Refuse a heterogeneous allocation: it has several sizes, and its variables are those of its first part."""
    parts = _count(environment.get("SLURM_HET_SIZE"))
    if parts and parts > 1:
        raise RequestError(
            f"job {environment.get('SLURM_JOB_ID')} is heterogeneous ({parts} parts): a run starts in one part only, "
            "with as many ranks on every node",
            hint="allocate nodes of one kind; or write the srun line yourself: srun --het-group=0,1 …",
        )


def _nodes(request: Request, environment: Mapping[str, str]) -> int | None:
    """Return the number of nodes of the allocation, less what -w and -x exclude."""
    node_list = environment.get("SLURM_JOB_NODELIST", "")
    wanted_list = request.nodelist if request.origin("nodelist").startswith("-") else None
    away = request.exclude if request.origin("exclude").startswith("-") else None
    if not node_list or (wanted_list is None and away is None):
        return _count(environment.get("SLURM_JOB_NUM_NODES"))
    node_names = expand(node_list)
    wanted_names = expand(wanted_list) if wanted_list else node_names
    missing = [name for name in wanted_names if name not in node_names]
    if missing:
        raise RequestError(
            f"{request.origin('nodelist')}: {', '.join(missing[:3])} is not in this allocation ({node_list})",
            hint="name nodes of it, or type it outside of the allocation",
        )
    node_count = len(set(wanted_names) - set(expand(away or "")))
    if node_count == 0:
        raise RequestError(
            f"{request.origin('exclude')} excludes every node of this allocation ({node_list})",
            hint="exclude fewer nodes",
        )
    return node_count


def _count(text: str | None) -> int | None:
    return (whole_number(text) or None) if text else None


def _each(text: str) -> list[int]:
    """Return the number of every node of Slurm's "4(x2),3"."""
    counts: list[int] = []
    for item in text.split(","):
        number, _, times = item.partition("(x")
        tasks = whole_number(number)
        if tasks is not None:
            counts += [tasks] * min(_count(times.rstrip(")")) or 1, _MOST_NODES)
    return counts


def _tasks(environment: Mapping[str, str]) -> int | None:
    """Return the tasks of a node where only their sum was asked for (salloc -n 4).

    A step's variables are the step's own.
    """
    if environment.get("SLURM_STEP_ID") or not environment.get("SLURM_NTASKS"):
        return None
    tasks = _each(environment.get("SLURM_TASKS_PER_NODE", ""))
    if len(set(tasks)) > 1:
        raise RequestError(
            f"this allocation has {environment['SLURM_NTASKS']} tasks, and not the same number on each node "
            f"({environment['SLURM_TASKS_PER_NODE']}): Muster starts as many ranks on every node",
            hint=f"--ntasks-per-node {min(tasks)}; or allocate with --ntasks-per-node",
        )
    return tasks[0] if tasks else None


def _gpus(environment: Mapping[str, str], runner: Runner | None) -> int | None:
    """Return the GPUs of a node. salloc's shell knows them where --gpus-per-node asked for them.

    --gres leaves no variable.
    """
    gpu_count = _count(environment.get("SLURM_GPUS_ON_NODE"))
    if gpu_count or environment.get("SLURMD_NODENAME"):
        return gpu_count
    gpu_count = _count(environment.get("SLURM_GPUS_PER_NODE", "").rpartition(":")[2])
    if gpu_count or runner is None:
        return gpu_count
    total = environment.get("SLURM_GPUS", "").rpartition(":")[2]
    if _count(total) and environment.get("SLURM_JOB_NUM_NODES") != "1":
        raise RequestError(
            f"this allocation has {total} GPUs in all, but it is not known on which nodes",
            hint="-g GPUS_PER_NODE, or --ntasks-per-node RANKS; --gpus-per-node allocates the same number on each",
        )
    return _count(total) or _gpus_by_asking(environment["SLURM_JOB_ID"], runner)


def _gpus_by_asking(job: str, runner: Runner) -> int | None:
    from muster.slurm.cluster import ask_gpus_of

    question = ask_gpus_of(job)
    try:
        answer = runner(question.argv, timeout_s=5)
    except MusterError:
        return None
    return question.read(answer.stdout) if answer.ok else None


def _share(ranks: int, asked_total: int | None, environment: Mapping[str, str]) -> int | None:
    """Return each rank's share of -c 32 that was asked for one task: of four ranks on the node each has eight."""
    cpus = _each(environment.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return asked_total if asked_total is None or not cpus else max(1, min(asked_total, min(cpus) // ranks))


def _possible(request: Request, environment: Mapping[str, str]) -> Request:
    """Refuse ranks that do not fit: srun would report it with other words, or fill the larger of two nodes."""
    cpus = sorted(_each(environment.get("SLURM_JOB_CPUS_PER_NODE", "")))[-(request.nodes or 1) :]
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
