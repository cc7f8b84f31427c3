"""Rules on what a job asks for and then leaves idle: nodes, tasks, CPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand, Stage
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity
from muster_lint.works import is_part, is_work, text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=8\n#SBATCH --time=01:00:00\n"
_STARTS_MORE = re.compile(
    r"\bray (start|job)\b|\b(dask|snakemake|nextflow|parsl|cromwell|ssh|pdsh|clush|spark|flux|parallel|mpirun|mpiexec|sbatch|xargs|salloc)\b|srun\b.*\bsrun\b"
    r"|SLURM_(JOB_)?(NODELIST|NTASKS|NPROCS|CPUS_ON_NODE|NNODES|NUM_NODES)|--multi-prog|hostfile|machinefile",
    re.IGNORECASE,
)
"""Signs that a program takes the rest of the job itself."""


def _lone_work(job: BatchScript) -> LaunchCommand | None:
    """Return the one command that is the work of the job; None where there are several, or one that may be several."""
    works = [each for each in job.launches if is_work(job, each) and (is_part(each) or _is_own(each))]
    works = [each for each in works if not each.command.in_substitution]
    if len(works) != 1 or works[0].stages[-1].word.may_be_several:
        return None
    lone, command = works[0], works[0].command
    others = [each for each in job.launches if each is not lone and not each.command.in_substitution]
    if any(is_work(job, each) and _may_be_work(each) for each in others):
        return None
    return None if command.in_loop or command.function is not None else lone


def _is_own(launch: LaunchCommand) -> bool:
    """Tell whether a command is a program of a folder of the job."""
    return launch.stages[-1].word.value.startswith("./") and launch.stages[-1].kind == "program"


def _may_be_work(launch: LaunchCommand) -> bool:
    last = launch.stages[-1]
    return (
        last.kind == "shell"
        or last.name.endswith(".sh")
        or not last.word.program
        or launch.command.in_background
        or launch.stage("step") is not None
    )


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[1-9]\d{0,5}", text) else None


def _in_header(job: BatchScript, name: str) -> int | None:
    return _count(job.header[name].value) if name in job.header else 1


@rule(
    "step-smaller-than-job",
    Severity.SLOW,
    "the only step is smaller than the job",
    why="What srun is told holds for its step alone: nodes, tasks and CPUs that no other step takes are paid for, and idle.",
    instead="Remove these options of srun, so that the step has the size of the job; or ask for a smaller job.",
    source=sources.SRUN,
    bad=_HEAD + "srun --kill-on-bad-exit=1 --cpus-per-task=1 ./solve\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 --cpus-per-task=8 ./solve\n",
)
def find_small_steps(job: BatchScript) -> Iterator[Hit]:
    """Yield the lone step of a job whose own numbers are below those of the header."""
    lone = _lone_work(job) if job.directives and job.first_header is None else None
    step = lone.stage("step") if lone is not None else None
    if lone is None or step is None or step.hidden or step.has("--exact", "--overlap") or _STARTS_MORE.search(job.body):
        return
    tasks, cpus, nodes = _tasks_of_job(job), _in_header(job, "cpus-per-task"), _in_header(job, "nodes")
    own_nodes, own_cpus = _count(step.text("-N", "--nodes")), _count(step.text("-c", "--cpus-per-task"))
    own_tasks = _tasks_of(step, own_nodes or nodes)
    starts = "whether the program starts other steps itself"
    if nodes is not None and own_nodes is not None and own_nodes < nodes:
        yield Hit(step.place_of("-N", "--nodes"), f"the only step takes {own_nodes} of {nodes} nodes", unknown=starts)
    elif nodes is not None and own_tasks is not None and own_tasks < nodes:
        yield Hit(
            step.place_of("-n", "--ntasks"), f"the only step is {_tasks(own_tasks)} on {nodes} nodes", unknown=starts
        )
    elif tasks is not None and cpus is not None and (own_tasks or own_cpus):
        has, takes = tasks * cpus, prod((own_tasks or tasks, own_cpus or cpus))
        if takes < has and own_cpus is not None and own_cpus < cpus:
            message = f"the only step takes {own_cpus} of {cpus} CPUs of a task"
            yield Hit(step.place_of("-c", "--cpus-per-task"), message)
        elif takes < has and own_tasks is not None and own_tasks * 2 <= tasks:  # else it may be the rest of whole nodes
            yield Hit(
                step.place_of("-n", "--ntasks"), f"the only step takes {own_tasks} of {tasks} tasks", unknown=starts
            )


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _tasks_of_job(job: BatchScript) -> int | None:
    """Return the tasks of the whole job; None where the header does not fix them."""
    if "ntasks" in job.header:
        return _in_header(job, "ntasks")
    per_node, nodes = _in_header(job, "ntasks-per-node"), _in_header(job, "nodes")
    return (
        per_node * nodes if per_node is not None and nodes is not None and "ntasks-per-gpu" not in job.header else None
    )


def _tasks_of(step: Stage, nodes: int | None) -> int | None:
    """Return the tasks that a step asks for by itself."""
    total, per_node = _count(step.text("-n", "--ntasks")), _count(step.text("--ntasks-per-node", "--tasks-per-node"))
    return total if total is not None else per_node * nodes if per_node is not None and nodes is not None else None


@rule(
    "cpus-unused",
    Severity.SLOW,
    "a program that is told fewer CPUs than the job has",
    why="A number of CPUs that is written by hand does not follow the header: the others wait, and are paid for.",
    instead="Give the program the job's own number: $SLURM_CPUS_PER_TASK.",
    source=sources.SBATCH,
    bad=_HEAD + "set -e\nexport NUM_CPUS=2\n./solve\n",
    good=_HEAD + 'set -e\nexport NUM_CPUS="$SLURM_CPUS_PER_TASK"\n./solve\n',
)
def find_unused_cpus(job: BatchScript) -> Iterator[Hit]:
    """Yield the first number of CPUs or threads for the only work that is at most half of what one task has."""
    cpus = _in_header(job, "cpus-per-task")
    lone = _lone_work(job) if job.directives and cpus is not None and cpus > 3 and job.has_one_task else None
    if (
        lone is None
        or cpus is None
        or lone.command.in_background
        or _STARTS_MORE.search(job.body)
        or _BINDS.search(job.body)
    ):
        return
    unknown = "what else of it runs beside them"
    for each in job.shell.assignments:
        number = _count(each.value.value) if each.value is not None and not each.may_not_run else None
        is_threads = each.name == "OMP_NUM_THREADS" and number != 1 and lone.stage("python") is None
        is_count = _OF_CPUS.fullmatch(each.name) or (is_threads and not job.asks_for_gpus)
        if number is not None and is_count and number * 2 <= cpus and each.order < lone.command.order:
            yield Hit(each.place, f"{each.name}={number}, and the task has {cpus} CPUs", unknown=unknown)
            return
    told = re.search(_TELLS_CPUS, text_of(lone.command))
    number = _count(told[2]) if told is not None else None
    if told is not None and number is not None and number * 2 <= cpus:
        yield Hit(
            lone.command.place,
            f"{told[1]} tells the program {number} CPU{'s' * (number != 1)}, and the task has {cpus}",
            unknown=unknown,
        )


_BINDS = re.compile(r"(KMP|GOMP)_\w*AFFINITY|numactl|OMP_PLACES|hyper.?thread", re.IGNORECASE)
_OF_CPUS = re.compile(
    r"(NUM|N|NB)_?(CPU|CORE|THREAD|PROC)S?|(CPU|THREAD|CORE)S|n_?(cpu|core|thread)s?|num_?(cpu|core|thread)s?|cpus|threads|cores"
)
_TELLS_CPUS = re.compile(r"(?:^|\s)(--(?:num[-_]?|n[-_]?)?(?:cpus?|threads?|cores?))[= ](\d+)(?=\s|$)")
