"""The plan for the site → the plan for a lab like it: what the lab does not have is removed, and reported. Pure.

Nothing is taken out silently: every change has its line under "not shown".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from muster.facts import Facts
from muster.launchers import launcher_named
from muster.model.plan import Flag, Hang, Output, Plan, Prelude, PreludeKind, Reason, Shape
from muster.model.words import Fragment
from muster.rank.vendors import VISIBLE
from muster.sites.schema import Profile

HasProgram = Callable[[str], bool]
HasPath = Callable[[str], bool]


class Rehearsed(msgspec.Struct, frozen=True):
    """A plan that a lab can run, and what was taken out of the site's for it."""

    plan: Plan
    taken_out: tuple[str, ...]


def for_lab(plan: Plan, profile: Profile, has: HasProgram, has_path: HasPath) -> Rehearsed:
    """Return the plan with everything that this machine can do, and a sentence for each thing that it cannot."""
    removed_parts: list[str] = []
    launcher = launcher_named(plan.launcher)
    if launcher.stand_in and not has(launcher.name):
        removed_parts.append(f"{launcher.name} itself: this machine has none, and {launcher.stand_in} starts the ranks")
        plan = replace(plan, launcher=launcher.stand_in)
    prelude = tuple(_prelude(plan.prelude, has, removed_parts))
    flags = tuple(_step_flags(plan.step_flags, profile, removed_parts))
    prologue = plan.node_prologue
    if prologue and not has(prologue[0]):
        removed_parts.append(f"once per node, `{' '.join(prologue)}`: this machine has no {prologue[0]}")
        prologue = ()
    image = plan.image
    lost_mounts = [mount.source for mount in image.mounts if not has_path(mount.source)]
    if lost_mounts:
        removed_parts.append(f"what the image sees of {', '.join(lost_mounts)}: this machine has no such path")
        image = replace(image, mounts=tuple(mount for mount in image.mounts if mount.source not in lost_mounts))
    meeting = plan.rendezvous
    if meeting.host_suffix or meeting.rule:
        host_rule = f"hosts called …{meeting.host_suffix}" if meeting.host_suffix else " ".join(meeting.rule)
        removed_parts.append(
            f"how rank 0's address is found there ({host_rule}): the lab's hosts are found by their own names"
        )
        meeting = replace(meeting, host_suffix="", rule=())
    adapted = replace(
        plan,
        prelude=prelude,
        step_flags=flags,
        node_prologue=prologue,
        rendezvous=meeting,
        image=image,
        output=Output.STREAM,
    )
    return Rehearsed(adapted, tuple(removed_parts))


def _prelude(commands: Sequence[Prelude], has: HasProgram, removed_parts: list[str]) -> Iterator[Prelude]:
    modules = []
    for command in commands:
        words = tuple(str(getattr(word, "text", word)) for word in command.words)
        if command.of_modules:
            modules.append(command)
        elif command.folder or words[0] in _BUILTINS or words[0].startswith("/") or has(words[0]):
            yield command
        else:
            removed_parts.append(f"the site's command `{' '.join(words)}`: this machine has no {words[0]}")
    if modules:
        named = [command for command in modules if command.kind in {PreludeKind.MODULE_USE, PreludeKind.MODULE_LOAD}]
        loads = [" ".join(map(str, command.shown[1:])).replace("|", " or ") for command in named]
        removed_parts.append(f"modules ({', '.join(loads) or 'purge'}): software is this machine's own")


_BUILTINS = frozenset({".", "ulimit", "export", "unset", "cd", "umask", "set", "test", "["})


def _step_flags(flags: Sequence[Flag], profile: Profile, removed_parts: list[str]) -> Iterator[Flag]:
    for flag in flags:
        name = str(flag.word).partition("=")[0]
        if name in profile.launch.stack_by_flag:
            removed_parts.append(f"the software stack of {flag.word}: its plugin of srun is the site's")
        else:
            yield flag


def few_ranks(plan: Plan, most_ranks: int) -> Plan:
    """Return the command itself, with at most `most` ranks and without GPUs, over the allocation of the whole job."""
    nodes = min(plan.shape.nodes, most_ranks)
    per_node = min(plan.shape.ntasks_per_node, max(1, most_ranks // nodes))
    flags = [flag for flag in plan.step_flags if not str(flag.word).startswith(("--cpu-bind=", "--gpu-bind="))]
    hidden = (f"{name}=" for name in VISIBLE)  # where srun itself sets them, only the rank can unset them
    return replace(
        plan,
        within=True,
        shape=Shape(nodes, per_node, 0, plan.shape.cpus_per_task, plan.shape.reasons),
        step_flags=tuple(flags),
        conditions=(),
        command=("env", *hidden, *plan.command),
        label=nodes * per_node > 1 and plan.label,
    )


_HANGS_AFTER_S = 120


def watched(plan: Plan, facts: Facts, *, asked: bool) -> Plan:
    """Return the plan with a watch of its ranks, which reports a hang in a file of the run directory.

    `asked`: whether the request itself says how long, or never.
    """
    hang = plan.hang
    if hang is None and facts.own_python is not None and not asked:
        reason = Reason("a rehearsal of ranks that wait for each other has to end")
        hang = Hang(_HANGS_AFTER_S, facts.own_python, reason, folder=facts.own_folder)
    if hang is None:
        return plan
    folder = Prelude(
        PreludeKind.COMMAND,
        ("mkdir", "-p", Fragment('"$muster_run_dir"')),
        hang.reason,
        "the run directory cannot be made",
        "work in a directory that you can write",
    )
    return replace(plan, hang=hang, prelude=(folder, *plan.prelude))


def not_shown(plan: Plan, profile: Profile) -> Iterator[str]:
    """Yield what no lab can show of this job."""
    fabric = profile.fabric.title or profile.fabric.kind
    if plan.shape.nodes > 1:
        yield (
            f"the fabric{f' ({fabric})' if fabric else ''}: the ranks met over the lab's own network; "
            "no line of NCCL's or of its plugins was executed"
        )
    if plan.shape.gpus_per_node:
        yield "the GPUs: Slurm declares them, and nothing computed on one"
    if any(str(flag.word).startswith("--cpu-bind=") for flag in plan.step_flags):
        yield "the binding itself: the lab's hosts share this machine's cores, so no rank was bound"
    yield "how long the job waits there, and the site's file systems"
