"""What the ranks of the probe told, compared with the plan: a point for each thing that a rehearsal shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from muster.model.plan import Plan
from muster.probe.text import FAILED_WITH, Seen


class Point(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    ok: bool
    text: str
    hint: str | None = None
    key: str = "launch"
    """The key of the site's profile that it proves or refutes."""

    quoted: tuple[str, ...] = ()
    """The script's own lines that say it."""


def judge(plan: Plan, rank_answers: Sequence[Seen]) -> list[Point]:
    """Return the points of a probe's run, in the order in which a job would break over them."""
    if not rank_answers:
        return [Point(ok=False, text="no rank came as far as the command", hint="the lines above say where it ended")]
    return [point for look in _LOOKS for point in look(plan, rank_answers)]


def stopped_at(plan: Plan, error_text: str) -> Point | None:
    """Return where the script itself stopped, by its own sentence.

    The module, the command or the size that it is about.
    """
    reasons = [
        (prelude.failure, prelude.reason, "modules" if prelude.of_modules else "commands") for prelude in plan.prelude
    ]
    reasons += [(condition.sentence, condition.reason, "launch") for condition in plan.conditions]
    for sentence, reason, room in reasons:
        if sentence in error_text:
            return Point(ok=False, text=sentence, key=reason.key or room)
    if "the node prologue failed" in error_text:
        return Point(ok=False, text=f"`{' '.join(plan.node_prologue)}` failed on a node", key="commands")
    return None


def judge_exit(status: int) -> Point:
    """Return whether the status of the one rank that failed came out at the end."""
    if status == FAILED_WITH:
        return Point(ok=True, text=f"one rank that ends with status {status} ends the job, with that status")
    text = f"one rank ended with status {FAILED_WITH}, and the job with {status}"
    return Point(ok=False, text=text, hint="please report it: the script has to give the first failed rank's status")


def _ranks(plan: Plan, rank_answers: Sequence[Seen]) -> Iterator[Point]:
    planned_ranks = plan.shape.ntasks
    ranks = [answer.rank for answer in rank_answers]
    hosts = {answer.host for answer in rank_answers}
    if sorted(rank for rank in ranks if rank is not None) != list(range(planned_ranks)):
        yield Point(ok=False, text=f"{planned_ranks} ranks were planned, and these came: {_spell(ranks)}")
        return
    places = {(answer.host, answer.environment.get("LOCAL_RANK")) for answer in rank_answers}
    if len(hosts) != plan.shape.nodes or len(places) != planned_ranks:
        yield Point(ok=False, text=f"{planned_ranks} ranks came to {len(places)} places on {len(hosts)} hosts")
        return
    text = f"{planned_ranks} rank{'s' * (planned_ranks != 1)} on {len(hosts)} host{'s' * (len(hosts) != 1)}"
    yield Point(ok=True, text=f"{text}, each with a rank and a local rank of its own")


def _meeting(plan: Plan, rank_answers: Sequence[Seen]) -> Iterator[Point]:
    del plan
    places = {(answer.environment.get("MASTER_ADDR"), answer.environment.get("MASTER_PORT")) for answer in rank_answers}
    first = rank_answers[0]
    address, port = first.environment.get("MASTER_ADDR"), first.environment.get("MASTER_PORT")
    if len(places) == 1 and address and port:
        yield Point(ok=True, text=f"all of them meet at the host of rank 0: {address}, port {port}")
    else:
        yield Point(ok=False, text=f"the ranks would meet at {len(places)} places: {places}", key="rendezvous.host")


def _command(plan: Plan, rank_answers: Sequence[Seen]) -> Iterator[Point]:
    planned_words = tuple(str(word) for word in plan.command)
    different = next((answer for answer in rank_answers if answer.argv != planned_words), None)
    if different is not None:
        yield Point(ok=False, text=f"rank {different.rank} was given another command: {different.argv}")
    else:
        yield Point(ok=True, text=f"the command reached every rank word for word ({len(planned_words)} words)")
    missing = sorted({answer.host for answer in rank_answers if answer.missing})
    if missing:
        text = f"{planned_words[0]} is not there on {', '.join(missing)}"
        yield Point(ok=False, text=text, hint="put it on a file system that all hosts see")


def _files(plan: Plan, rank_answers: Sequence[Seen]) -> Iterator[Point]:
    del plan
    lost_files = sorted({(path, answer.host) for answer in rank_answers for path in answer.unreadable})
    for path, host in lost_files[:3]:
        yield Point(ok=False, text=f"{path} cannot be read on {host}", hint="put it where all hosts see it")
    if not lost_files:
        yield Point(ok=True, text="the files that the command names can be read on every host")


def _environment(plan: Plan, rank_answers: Sequence[Seen]) -> Iterator[Point]:
    wrong: list[tuple[str, str]] = []
    for variable in plan.variables:
        if variable.pass_on or variable.name.endswith("*") or (variable.value is None and plan.image.image):
            continue  # what of the host stays outside of an image, the image may have of its own
        for answer in rank_answers:
            actual = answer.environment.get(variable.name)
            as_planned = (actual is None) if variable.value is None else actual is not None
            if as_planned and type(variable.value) is str:
                as_planned = actual == variable.value
            if not as_planned:
                wrong.append((variable.name, f"rank {answer.rank} has {variable.name}={actual!r}"))
                break
    for name, text in wrong[:3]:
        yield Point(
            ok=False,
            text=f"{text}, which differs from the plan",
            hint="muster plan --as why says why",
            key=f"environment.{name}",
        )
    if not wrong:
        count = f"{len(plan.variables)} variable{'s' * (len(plan.variables) != 1)}"
        yield Point(ok=True, text=f"the environment is the plan's on every rank ({count})")


def _devices(plan: Plan, rank_answers: Sequence[Seen]) -> Iterator[Point]:
    if not plan.shape.gpus_per_node:
        return
    counts = {
        len(list(filter(None, answer.environment.get("CUDA_VISIBLE_DEVICES", "").split(","))))
        for answer in rank_answers
    }
    wanted_count = 1 if plan.visibility == "one" else plan.shape.gpus_per_node
    ok = counts == {wanted_count}
    shown_counts = ", ".join(map(str, sorted(counts)))
    yield Point(ok=ok, text=f"every rank sees {shown_counts} GPUs (as Slurm declares them)", key="devices.visibility")


def _masks(plan: Plan, rank_answers: Sequence[Seen]) -> Iterator[Point]:
    flag = next(
        (str(flag_row.word) for flag_row in plan.step_flags if str(flag_row.word).startswith("--cpu-bind=mask_cpu:")),
        None,
    )
    if flag is None:
        return
    masks = [int(mask, 16) for mask in flag.partition(":")[2].split(",")]
    bound_masks = {answer.environment.get("SLURM_CPU_BIND_LIST", "") for answer in rank_answers}
    if any(mask & earlier for place, mask in enumerate(masks) for earlier in masks[:place]):
        yield Point(ok=False, text="two CPU masks share a core", hint="correct the site's profile", key="binding.kind")
    elif {tuple(int(word, 16) for word in text.split(",") if word) for text in bound_masks} == {tuple(masks)}:
        yield Point(ok=True, text=f"srun took the {len(masks)} CPU masks, no core is in two of them")
    else:
        text = f"srun was given {len(masks)} CPU masks, but the ranks report {bound_masks}"
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
    return ", ".join("one without a rank" if rank is None else str(rank) for rank in ranks)
