"""What the ranks of the probe told, compared with the plan: a point for each thing that a rehearsal shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from muster.model.plan import Plan, Prelude
from muster.rehearse.probe import FAILED_WITH, Seen

__all__ = ["Point", "judge", "judge_exit", "stopped_at"]


class Point(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    ok: bool
    text: str
    hint: str | None = None
    key: str = "launch"
    """The key of the site's profile that it proves or refutes."""


def judge(plan: Plan, seen: Sequence[Seen]) -> list[Point]:
    """Return the points of a probe's run, in the order in which a job would break over them."""
    if not seen:
        return [Point(ok=False, text="no rank came as far as the command", hint="the lines above say where it ended")]
    return [point for look in _LOOKS for point in look(plan, seen)]


def stopped_at(plan: Plan, said: str) -> Point | None:
    """Where the script itself stopped, by its own sentence: the module, the command or the size that it is about."""
    # A command of the script that no entry of the profile stands behind is the one that makes `module` known.
    reasons = [(each.failure, each.reason, _room(each)) for each in plan.prelude]
    reasons += [(each.sentence, each.reason, "launch") for each in plan.conditions]
    for sentence, reason, room in reasons:
        if sentence in said:
            of_site = reason.origin.startswith("site ")
            return Point(ok=False, text=sentence, key=reason.origin.rpartition(": ")[2] if of_site else room)
    if "the node prologue failed" in said:
        return Point(ok=False, text=f"`{' '.join(plan.node_prologue)}` failed on a node", key="commands")
    return None


def _room(prelude: Prelude) -> str:
    """Return the part of a profile that a command of the script comes from, where its reason does not name it."""
    return "modules" if prelude.of_modules or prelude.reason.origin == "muster" else "commands"


def judge_exit(status: int) -> Point:
    """Return whether the status of the one rank that failed came out at the end."""
    if status == FAILED_WITH:
        return Point(ok=True, text=f"one rank that ends with status {status} ends the job, with that status")
    text = f"one rank ended with status {FAILED_WITH}, and the job with {status}"
    return Point(ok=False, text=text, hint="please report it: the script has to give the first failed rank's status")


def _ranks(plan: Plan, seen: Sequence[Seen]) -> Iterator[Point]:
    planned = plan.shape.ntasks
    found = [each.rank for each in seen]
    hosts = {each.host for each in seen}
    if sorted(rank for rank in found if rank is not None) != list(range(planned)):
        yield Point(ok=False, text=f"{planned} ranks were planned, and these came: {_spell(found)}")
        return
    places = {(each.host, each.environment.get("LOCAL_RANK")) for each in seen}
    if len(hosts) != plan.shape.nodes or len(places) != planned:
        yield Point(ok=False, text=f"{planned} ranks came to {len(places)} places on {len(hosts)} hosts")
        return
    yield Point(ok=True, text=f"{planned} ranks on {len(hosts)} hosts, each with a rank and a local rank of its own")


def _meeting(plan: Plan, seen: Sequence[Seen]) -> Iterator[Point]:
    del plan
    places = {(each.environment.get("MASTER_ADDR"), each.environment.get("MASTER_PORT")) for each in seen}
    first = seen[0]
    address, port = first.environment.get("MASTER_ADDR"), first.environment.get("MASTER_PORT")
    if len(places) == 1 and address and port:
        yield Point(ok=True, text=f"all of them meet at the host of rank 0: {address}, port {port}")
    else:
        yield Point(ok=False, text=f"the ranks would meet at {len(places)} places: {places}", key="rendezvous.host")


def _command(plan: Plan, seen: Sequence[Seen]) -> Iterator[Point]:
    wanted = tuple(str(word) for word in plan.command)
    other = next((each for each in seen if each.argv != wanted), None)
    if other is not None:
        yield Point(ok=False, text=f"rank {other.rank} was given another command: {other.argv}")
    else:
        yield Point(ok=True, text=f"the command reached every rank word for word ({len(wanted)} words)")
    missing = sorted({each.host for each in seen if each.missing})
    if missing:
        text = f"{wanted[0]} is not there on {', '.join(missing)}"
        yield Point(ok=False, text=text, hint="put it on a file system that all hosts see")


def _files(plan: Plan, seen: Sequence[Seen]) -> Iterator[Point]:
    del plan
    lost = sorted({(path, each.host) for each in seen for path in each.unreadable})
    for path, host in lost[:3]:
        yield Point(ok=False, text=f"{path} cannot be read on {host}", hint="put it where all hosts see it")
    if not lost:
        yield Point(ok=True, text="the files that the command names can be read on every host")


def _environment(plan: Plan, seen: Sequence[Seen]) -> Iterator[Point]:
    wrong: list[tuple[str, str]] = []
    for variable in plan.variables:
        if variable.pass_on or variable.name.endswith("*") or (variable.value is None and plan.image.image):
            continue  # what of the host stays outside of an image, the image may have of its own
        for each in seen:
            found = each.environment.get(variable.name)
            as_planned = (found is None) if variable.value is None else found is not None
            if as_planned and type(variable.value) is str:
                as_planned = found == variable.value
            if not as_planned:
                wrong.append((variable.name, f"rank {each.rank} has {variable.name}={found!r}"))
                break
    for name, text in wrong[:3]:
        yield Point(
            ok=False,
            text=f"{text}, which differs from the plan",
            hint="muster plan --as why says why",
            key=f"environment.{name}",
        )
    if not wrong:
        yield Point(ok=True, text=f"the environment is the plan's on every rank ({len(plan.variables)} variables)")


def _devices(plan: Plan, seen: Sequence[Seen]) -> Iterator[Point]:
    if not plan.shape.gpus_per_node:
        return
    counts = {len(list(filter(None, each.environment.get("CUDA_VISIBLE_DEVICES", "").split(",")))) for each in seen}
    wanted = 1 if plan.visibility == "one" else plan.shape.gpus_per_node
    ok = counts == {wanted}
    shown = ", ".join(map(str, sorted(counts)))
    yield Point(ok=ok, text=f"every rank sees {shown} GPUs (as Slurm declares them)", key="devices.visibility")


def _masks(plan: Plan, seen: Sequence[Seen]) -> Iterator[Point]:
    flag = next((str(each.word) for each in plan.step_flags if str(each.word).startswith("--cpu-bind=mask_cpu:")), None)
    if flag is None:
        return
    masks = [int(each, 16) for each in flag.partition(":")[2].split(",")]
    told = {each.environment.get("SLURM_CPU_BIND_LIST", "") for each in seen}
    if any(one & other for place, one in enumerate(masks) for other in masks[:place]):
        yield Point(ok=False, text="two CPU masks share a core", hint="correct the site's profile", key="binding.kind")
    elif {tuple(int(word, 16) for word in text.split(",") if word) for text in told} == {tuple(masks)}:
        yield Point(ok=True, text=f"srun took the {len(masks)} CPU masks, no core is in two of them")
    else:
        text = f"srun was given {len(masks)} CPU masks, but the ranks report {told}"
        yield Point(ok=False, text=text, key="binding.kind")


_LOOKS: tuple[Callable[[Plan, Sequence[Seen]], Iterator[Point]], ...] = (
    _ranks,
    _meeting,
    _command,
    _files,
    _environment,
    _devices,
    _masks,
)


def _spell(ranks: Sequence[int | None]) -> str:
    return ", ".join("one without a rank" if each is None else str(each) for each in ranks)
