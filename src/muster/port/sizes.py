"""Nodes, ranks, GPUs and CPUs: what header, step and agent say together → the few numbers of a request. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from muster.errors import RequestError
from muster.lint.job import HeaderOption
from muster.port.header import gpus_of, written
from muster.port.values import Draft, Fate, PortRow, option_words
from muster.units import Memory, whole_number

__all__ = ["put_sizes"]


class _Said(msgspec.Struct, frozen=True):
    """What the script says, the step's word before the header's."""

    header: Mapping[str, HeaderOption]
    step: Mapping[str, str]

    def number(self, name: str) -> int | None:
        step_number = whole_number(self.step.get(name, ""))
        return step_number if step_number is not None else whole_number(self.text(name) or "")

    def text(self, name: str) -> str | None:
        return self.header[name].value if name in self.header else None

    def gpus(self, name: str) -> int | None:
        step_gpus = gpus_of(self.step.get(name))
        if step_gpus is not None:
            return step_gpus
        text = self.text(name)
        if name == "gres" and "gpu" not in (text or ""):
            return None
        return gpus_of(text) or (1 if name == "gres" and text else None)


def put_sizes(header: Mapping[str, HeaderOption], step: Mapping[str, str], draft: Draft, *, uses_gpus: bool) -> None:
    """Work out the sizes, and give every flag that speaks of them its row."""
    sizes = _Said(header, step)
    tasks = sizes.number("ntasks-per-node")
    total = sizes.number("ntasks")
    nodes = sizes.number("nodes") or _first(sizes.text("nodes")) or _nodes(tasks, total)
    tasks = tasks or (max(1, total // nodes) if total and nodes else None)
    gpus = _gpus(sizes, nodes or 1, tasks or 1)
    agents = draft.get("launcher") in {"torchrun", "mpirun+torchrun"} or "ranks" in step or "processes" in step
    ranks = _ranks(step, nodes or 1, tasks or 1, gpus, agents=agents)
    starts_alone = not agents and not draft.get("launcher") and not any(row.field == "started" for row in draft.rows)
    if starts_alone:
        ranks = 1
    asked_gpus = gpus
    if gpus is None and uses_gpus:
        gpus = ranks
    _set(draft, "nodes", nodes)
    _set(draft, "gpus_per_node", gpus if gpus is not None else 0)
    if ranks != (gpus or 1):
        _set(draft, "ntasks_per_node", ranks)
    _put_cpus(sizes, draft, agents=agents, tasks=tasks or 1, ranks=ranks, gpus=gpus or 0)
    _put_memory(sizes, draft, gpus=gpus or 0, ranks=ranks)
    _say(sizes, draft)
    if asked_gpus is None and gpus:
        draft.ask(0, "(no GPUs)", "the script asks for none, and uses them: are they as many as the ranks?",
                  f"-g {gpus}", field="gpus_per_node")  # fmt: skip


def _set(draft: Draft, field: str, value: int | None) -> None:
    if value is not None:
        draft.values[field] = [str(value)]


def _first(text: str | None) -> int | None:
    """Return the first number of 2-4, 2,4 or 2:gpu."""
    match = re.match(r"\d{1,6}", text or "")
    return int(match[0]) if match else None


def _nodes(tasks: int | None, total: int | None) -> int | None:
    if total and tasks:
        return max(1, -(-total // tasks))
    return None


def _gpus(sizes: _Said, nodes: int, tasks: int) -> int | None:
    for name in ("gpus-per-node", "gres"):
        gpu_count = sizes.gpus(name)
        if gpu_count is not None:
            return gpu_count
    per_task = sizes.gpus("gpus-per-task")
    if per_task is not None:
        return per_task * tasks
    total = sizes.gpus("gpus")
    if total is not None:
        return max(1, total // nodes)
    return None


def _ranks(step: Mapping[str, str], nodes: int, tasks: int, gpus: int | None, *, agents: bool) -> int:
    if "processes" in step:
        return max(1, (whole_number(step["processes"]) or nodes * (gpus or 1)) // nodes)
    if "ranks" in step:
        return whole_number(step["ranks"]) or gpus or 1
    if agents:
        return gpus or 1
    return tasks


def _put_cpus(sizes: _Said, draft: Draft, *, agents: bool, tasks: int, ranks: int, gpus: int) -> None:
    cpus = sizes.number("cpus-per-task")
    per_gpu = sizes.number("cpus-per-gpu")
    if cpus is None and per_gpu is not None and gpus:
        cpus = max(1, per_gpu * gpus // (1 if agents else tasks))
    if cpus is None:
        return
    cpus_per_rank = max(1, cpus * (tasks if agents else 1) // ranks) if agents else cpus
    _set(draft, "cpus_per_task", cpus_per_rank)


def _put_memory(sizes: _Said, draft: Draft, *, gpus: int, ranks: int) -> None:
    """Put the memory of a node, from memory of a GPU or of a CPU."""
    for name, count in (("mem-per-gpu", gpus), ("mem-per-cpu", ranks * (draft.number("cpus_per_task") or 1))):
        text = sizes.text(name)
        if text is None:
            continue
        try:
            size = Memory.parse(text)
        except RequestError as error:
            draft.ask(sizes.header[name].place.line, written(sizes.header[name]), error.message)
            return
        if count and size.mib:
            draft.change(
                sizes.header[name].place.line,
                written(sizes.header[name]),
                "mem",
                str(Memory(size.mib * count)),
                f"{size} × {count}: the memory of a node",
            )
            return


_OF = {
    "nodes": "nodes",
    "ntasks": "ntasks_per_node",
    "ntasks-per-node": "ntasks_per_node",
    "cpus-per-task": "cpus_per_task",
    "cpus-per-gpu": "cpus_per_task",
    "gpus": "gpus_per_node",
    "gpus-per-node": "gpus_per_node",
    "gpus-per-task": "gpus_per_node",
    "gres": "gpus_per_node",
}


def _say(sizes: _Said, draft: Draft) -> None:
    told_subjects = {row.what for row in draft.rows if row.field == "mem"}
    for name, directive in sizes.header.items():
        subject, line = written(directive), directive.place.line
        field = _OF.get(name, "")
        if subject in told_subjects:
            continue
        if name == "gres" and "gpu" not in (directive.value or ""):
            draft.keep(line, subject, "gres", directive.value or "", "a resource of one site")
            continue
        if not field:
            draft.ask(
                line, subject, "no option of Muster's stands for it: the plan works the sizes out from nodes and GPUs"
            )
            continue
        value = draft.get(field)
        if value is None:
            draft.note(line, subject, "", "one rank for each GPU, which -g says", field)
            continue
        now = " ".join(option_words(field, [value]))
        number = gpus_of(directive.value) if field == "gpus_per_node" else whole_number(directive.value or "")
        is_same = number == int(value)
        draft.rows.append(_row(line, subject, is_same=is_same, now=now, field=field, name=name))


def _row(line: int, subject: str, *, is_same: bool, now: str, field: str, name: str) -> PortRow:
    reason = "" if is_same else _WHY.get(name, "the same size in Muster's words")
    return PortRow(line, subject, Fate.KEPT if is_same else Fate.CHANGED, now, reason, field)


_WHY = {
    "ntasks": "the ranks of each node",
    "ntasks-per-node": "an agent is one task of Slurm's, and Muster counts ranks",
    "cpus-per-task": "for each rank: an agent's CPUs are divided by its ranks",
    "cpus-per-gpu": "for each rank",
    "gpus": "the GPUs of each node: a sum leaves open where they are",
    "gpus-per-task": "the GPUs of each node: a GPU of its own for each task breaks peer access",
    "nodes": "a range: its first number",
}
