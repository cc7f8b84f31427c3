"""Rules on Ray: its head, its workers, and the program that uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand, Stage
from muster_lint.rule import rule
from muster_lint.sizes import cpus_of_node
from muster_lint.values import Hit, Severity
from muster_lint.works import is_work

_SOURCE = "ray-project/ray doc/source/cluster/vms/user-guides/community/slurm.rst @d7a08ff1b1f8"
_HEAD = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n#SBATCH --cpus-per-task=8\n"
    '#SBATCH --time=01:00:00\nhead=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nset -e\n'
)
_SRUN = 'srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 '
_START_HEAD = _SRUN + '-N1 -n1 -w "$head" ray start --head --port=6379 --block &\n'
_JOIN = _SRUN + '-N1 -n1 -x "$head" ray start --address="$head:6379" --block'
_DRIVER = "until ray status; do kill -0 $! || exit 1; sleep 2; done\npython drive.py\n"


def _starts(launches: tuple[LaunchCommand, ...]) -> Iterator[tuple[LaunchCommand, Stage]]:
    """Yield the commands that run `ray start`."""
    for launch in launches:
        last = launch.stages[-1] if launch.stages else None
        if last is not None and last.name == "ray" and last.words and last.words[0].value == "start":
            yield launch, last


def _has_place(stage: Stage) -> bool:
    """Tell whether `ray start` is told to be the head or whom to join, or whether a variable may tell it."""
    values = [word.value for word in stage.words]
    if any(value.startswith(("--head", "--address", "--redis-address", "--help", "@")) for value in values):
        return True
    return any(
        word.may_be_several or (word.value.startswith("$") and not before.value.startswith("--"))
        for before, word in zip(stage.words, stage.words[1:])
    )


@rule(
    "ray-start-nowhere",
    Severity.BREAKS,
    "ray start without --head and without --address",
    why="ray start asks for one of the two and stops: no cluster of Ray is made.",
    instead='Start the head on one node with --head, and the others with --address="$head:6379".',
    source="ray-project/ray python/ray/scripts/scripts.py, start (--address is a required flag unless --head)",
    bad=_HEAD + _START_HEAD + _JOIN.replace(' --address="$head:6379"', "") + " &\n" + _DRIVER,
    good=_HEAD + _START_HEAD + _JOIN + " &\n" + _DRIVER,
)
def find_placeless_starts(job: BatchScript) -> Iterator[Hit]:
    """Yield `ray start` with neither option."""
    for launch, stage in _starts(job.all_launches):
        if not _has_place(stage) and not launch.unknown:
            yield Hit(stage.word.place, "ray start stops: it has neither --head nor --address")


@rule(
    "ray-blocks",
    Severity.HANGS,
    "ray start --block in the foreground",
    why="With --block ray start does not end while Ray runs: the lines below it never run.",
    instead="Put & behind it, or leave --block out where srun does not start it.",
    source=_SOURCE,
    bad=_HEAD + _START_HEAD + _JOIN + "\n" + _DRIVER,
    good=_HEAD + _START_HEAD + _JOIN + " &\n" + _DRIVER,
)
def find_blocking_starts(job: BatchScript) -> Iterator[Hit]:
    """Yield `ray start --block` that the script waits for, with work below it."""
    works = [each.command for each in job.launches if is_work(job, each)]
    for launch, stage in _starts(job.launches):
        each = launch.command
        excused = each.in_background or each.is_conditional or each.is_guarded or each.in_loop or each.in_substitution
        if excused or each.function or any(link.name == "timeout" for link in launch.stages):
            continue
        below = [work for work in works if work.order > each.order and work.function is None]
        if below and _has_place(stage) and any(word.value == "--block" for word in stage.words):
            yield Hit(each.place, f"line {below[0].place.line} is never reached while Ray runs", unknown=launch.unknown)


@rule(
    "ray-counts-differ",
    Severity.SLOW,
    "Ray is told other CPUs or GPUs than the job has",
    why="Ray starts as many workers as it is told. More of them than the CPUs of the job take turns on these; fewer leave the rest idle.",
    instead='Write --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="$SLURM_GPUS_ON_NODE".',
    source="ray-project/ray python/ray/scripts/scripts.py, start (--num-cpus)",
    bad=_HEAD + _START_HEAD.replace("--head", "--head --num-cpus=64") + _JOIN + " &\n" + _DRIVER,
    good=_HEAD + _START_HEAD.replace("--head", "--head --num-cpus=8") + _JOIN + " &\n" + _DRIVER,
)
def find_other_counts(job: BatchScript) -> Iterator[Hit]:
    """Yield the literal numbers of `ray start` that are above what a node of the job has."""
    cpus, gpus = cpus_of_node(job), job.gpus_per_node
    is_open = job.header.keys().isdisjoint({"cpus-per-task", "ntasks", "nodes", "ntasks-per-node", "gres", "gpus"})
    for _, stage in _starts(job.all_launches):
        for option, had, name in (("--num-cpus", cpus, "CPU"), ("--num-gpus", gpus, "GPU")):
            words = " ".join(word.value for word in stage.words)
            told = re.search(rf"{option}[= ](\d+)(\s|$)", words)
            if told is None or had is None or int(told[1]) <= had:
                continue
            unknown = (
                "what sbatch is asked for" if is_open else "what the site gives with a GPU" if name == "CPU" else ""
            )
            message = f"{option} tells Ray {told[1]} {name}s, and the header asks for {had} of a node"
            yield Hit(stage.word.place, message, unknown=unknown)


@rule(
    "ray-driver-everywhere",
    Severity.FRAGILE,
    "the program that uses Ray, started on every node",
    why="Ray has one driver; the nodes are its workers. srun without -N1 -n1 starts the driver once for each task: each wants the whole cluster.",
    instead="Start it in the batch script without srun, or with srun --overlap -N1 -n1.",
    source=_SOURCE,
    bad=_HEAD
    + _START_HEAD
    + _JOIN
    + " &\nuntil ray status; do kill -0 $! || exit 1; sleep 2; done\n"
    + _SRUN
    + "python drive.py\n",
    good=_HEAD + _START_HEAD + _JOIN + " &\n" + _DRIVER,
)
def find_many_drivers(job: BatchScript) -> Iterator[Hit]:
    """Yield steps of several tasks that start Python beside a cluster of Ray."""
    if not any(True for _ in _starts(job.all_launches)) or ((job.nodes or 1) * (job.tasks_per_node or 1)) < 2:
        return
    for launch in job.steps:
        step, python = launch.stage("step"), launch.stage("python")
        if step is None or python is None or not python.words or launch.unknown or launch.command.in_substitution:
            continue
        is_one = step.text("-n", "--ntasks") == "1" or step.text("-N", "--nodes") == "1"
        ranks = re.search(r"SLURM_(PROCID|NODEID)", " ".join(word.text for word in launch.command.words))
        if not is_one and not ranks and not step.has("-w", "--nodelist"):
            unknown = "whether the program does something else on each node"
            yield Hit(step.word.place, "every task of this step is a driver of its own", unknown=unknown)
