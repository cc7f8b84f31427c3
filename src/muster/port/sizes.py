"""Nodes, ranks, GPUs and CPUs: what header, step and agent say together → the few numbers of a request. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from muster.errors import RequestError
from muster.lint.job import Directive
from muster.port.header import gpus_of, written
from muster.port.values import Draft, Row, Verdict, option_words
from muster.units import Memory, whole_number

__all__ = ["put_sizes"]


class _Said(msgspec.Struct, frozen=True):
    """What the script says, the step's word before the header's."""

    header: Mapping[str, Directive]
    step: Mapping[str, str]

    def number(self, name: str) -> int | None:
        own = whole_number(self.step.get(name, ""))
        return own if own is not None else whole_number(self.text(name) or "")

    def text(self, name: str) -> str | None:
        return self.header[name].value if name in self.header else None

    def gpus(self, name: str) -> int | None:
        own = gpus_of(self.step.get(name))
        if own is not None:
            return own
        text = self.text(name)
        if name == "gres" and "gpu" not in (text or ""):
            return None
        return gpus_of(text) or (1 if name == "gres" and text else None)


def put_sizes(header: Mapping[str, Directive], step: Mapping[str, str], draft: Draft, *, uses_gpus: bool) -> None:
    """Work out the sizes, and give every flag that speaks of them its row."""
    said = _Said(header, step)
    tasks = said.number("ntasks-per-node")
    total = said.number("ntasks")
    nodes = said.number("nodes") or _first(said.text("nodes")) or _nodes(tasks, total)
    tasks = tasks or (max(1, total // nodes) if total and nodes else None)
    gpus = _gpus(said, nodes or 1, tasks or 1)
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
    _put_cpus(said, draft, agents=agents, tasks=tasks or 1, ranks=ranks, gpus=gpus or 0)
    _put_memory(said, draft, gpus=gpus or 0, ranks=ranks)
    _say(said, draft)
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


def _gpus(said: _Said, nodes: int, tasks: int) -> int | None:
    for name in ("gpus-per-node", "gres"):
        found = said.gpus(name)
        if found is not None:
            return found
    each = said.gpus("gpus-per-task")
    if each is not None:
        return each * tasks
    total = said.gpus("gpus")
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


def _put_cpus(said: _Said, draft: Draft, *, agents: bool, tasks: int, ranks: int, gpus: int) -> None:
    cpus = said.number("cpus-per-task")
    each = said.number("cpus-per-gpu")
    if cpus is None and each is not None and gpus:
        cpus = max(1, each * gpus // (1 if agents else tasks))
    if cpus is None:
        return
    mine = max(1, cpus * (tasks if agents else 1) // ranks) if agents else cpus
    _set(draft, "cpus_per_task", mine)


def _put_memory(said: _Said, draft: Draft, *, gpus: int, ranks: int) -> None:
    """Memory of a node, from memory of a GPU or of a CPU."""
    for name, count in (("mem-per-gpu", gpus), ("mem-per-cpu", ranks * (draft.number("cpus_per_task") or 1))):
        text = said.text(name)
        if text is None:
            continue
        try:
            size = Memory.parse(text)
        except RequestError as error:
            draft.ask(said.header[name].place.line, written(said.header[name]), error.message)
            return
        if count and size.mib:
            draft.change(
                said.header[name].place.line,
                written(said.header[name]),
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


def _say(said: _Said, draft: Draft) -> None:
    done = {row.what for row in draft.rows if row.field == "mem"}
    for name, directive in said.header.items():
        what, line = written(directive), directive.place.line
        field = _OF.get(name, "")
        if what in done:
            continue
        if name == "gres" and "gpu" not in (directive.value or ""):
            draft.keep(line, what, "gres", directive.value or "", "a resource of one site")
            continue
        if not field:
            draft.ask(
                line, what, "no option of Muster's stands for it: the plan works the sizes out from nodes and GPUs"
            )
            continue
        value = draft.get(field)
        if value is None:
            draft.note(line, what, "", "one rank for each GPU, which -g says", field)
            continue
        now = " ".join(option_words(field, [value]))
        number = gpus_of(directive.value) if field == "gpus_per_node" else whole_number(directive.value or "")
        same = number == int(value)
        draft.rows.append(_row(line, what, same=same, now=now, field=field, name=name))


def _row(line: int, what: str, *, same: bool, now: str, field: str, name: str) -> Row:
    why = "" if same else _WHY.get(name, "the same size in Muster's words")
    return Row(line, what, Verdict.KEPT if same else Verdict.CHANGED, now, why, field)


_WHY = {
    "ntasks": "the ranks of each node",
    "ntasks-per-node": "an agent is one task of Slurm's, and Muster counts ranks",
    "cpus-per-task": "for each rank: an agent's CPUs are divided by its ranks",
    "cpus-per-gpu": "for each rank",
    "gpus": "the GPUs of each node: a sum leaves open where they are",
    "gpus-per-task": "the GPUs of each node: a GPU of its own for each task breaks peer access",
    "nodes": "a range: its first number",
}
