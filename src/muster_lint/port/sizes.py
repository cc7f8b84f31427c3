"""Nodes, ranks, GPUs and CPUs: what header, step and agent say together → the few numbers of a request. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from muster.errors import RequestError
from muster.units import Memory, whole_number
from muster_lint.job import HeaderOption
from muster_lint.port.header import gpus_of, written
from muster_lint.port.step import AGENTS_OF_TORCH
from muster_lint.port.values import Draft, Fate, PortRow, option_words


class _Said(msgspec.Struct, frozen=True):
    """What the header says, and the flags of the step and of the agents."""

    header: Mapping[str, HeaderOption]
    step: Mapping[str, str]

    def number(self, name: str) -> int | None:
        return whole_number(self.text(name) or "")

    def text(self, name: str) -> str | None:
        return self.header[name].value if name in self.header else None

    def gpus(self, name: str) -> int | None:
        text = self.step.get(name) if gpus_of(self.step.get(name)) is not None else self.text(name)
        if name == "gres":
            text = _gpus_of_gres(text)
        number = gpus_of(text)
        return 1 if number is None and name == "gres" and text else number


def _gpus_of_gres(text: str | None) -> str | None:
    """Return the part of a list of resources that names GPUs; None where none does."""
    return next((item for item in (text or "").split(",") if re.match(r"gpu(:|$)", item)), None)


def _worked_out(text: str, known: Mapping[str, int | None]) -> int | None:
    """Return the number that a text like 4, $SLURM_NNODES or $((SLURM_NNODES * 4)) is; None: it is not certain."""
    for name, number in known.items():
        if number is not None:
            text = re.sub(rf"\$\{{{name}(?::?-[^{{}}]*)?\}}|\$?\b{name}\b", str(number), text)
    text = re.sub(r"^\$\(\((.*)\)\)$", r"\1", text.strip())
    if not re.fullmatch(r"[\d ()*/+-]{1,60}", text):
        return None
    value = 1
    factors = re.split(r"([*/])", text.replace("(", "").replace(")", "")) if not re.search(r"[+-]", text) else []
    for sign, factor in zip(["*", *factors[1::2]], factors[::2]):
        number = whole_number(factor.strip())
        if number is None or (sign == "/" and (number == 0 or value % number)):
            return None
        value = value * number if sign == "*" else value // number
    return value if factors else None


class _Count(msgspec.Struct):
    """The sizes of the job, and what is asked about them, by the flag of the step."""

    nodes: int
    ranks: int
    agents: int = 1
    """How many the script starts on each node."""

    questions: dict[str, str] = {}


_NUMBER = re.compile(r"0*[1-9]\d{0,8}")
_FORMS = {
    "nodes": (re.compile(r"0*[1-9]\d{0,5}(-\d{1,6})?"), "a number of nodes"),
    "gpus": (re.compile(r"([\w.-]+:)?\d{1,6}"), "a number of GPUs"),
    "gpus-per-node": (re.compile(r"([\w.-]+:)?\d{1,6}"), "a number of GPUs"),
    "gpus-per-task": (re.compile(r"([\w.-]+:)?\d{1,6}"), "a number of GPUs"),
    "gres": (re.compile(r"(?:[\w/.-]+(?::[\w.-]+){0,2}(?:\(S:[\d,-]+\))?(?:,(?=.)|$))+"), "a list of resources"),
    "mem-per-gpu": (re.compile(".+"), ""),
    "mem-per-cpu": (re.compile(".+"), ""),
}


def _well_formed(header: Mapping[str, HeaderOption], draft: Draft) -> dict[str, HeaderOption]:
    """Return the sizes that are sizes, and ask about the others: sbatch refuses them, or takes them otherwise."""
    good: dict[str, HeaderOption] = {}
    for name, directive in header.items():
        form, noun = _FORMS.get(name, (_NUMBER, "a count"))
        if form.fullmatch(directive.value or ""):
            good[name] = directive
        else:
            reason = f"{directive.value or 'nothing'} is not {noun}" if directive.value else "it has no value"
            draft.ask(directive.place.line, written(directive), reason)
    return good


def put_sizes(header: Mapping[str, HeaderOption], step: Mapping[str, str], draft: Draft, *, uses_gpus: bool) -> None:
    """Work out the sizes, and give every flag that speaks of them its row."""
    sizes = _Said(_well_formed(header, draft), step)
    tasks, total = sizes.number("ntasks-per-node"), sizes.number("ntasks")
    nodes = sizes.number("nodes") or _first(sizes.text("nodes")) or _nodes(tasks, total)
    if nodes is None and (total or 1) > 1:
        _ask_nodes(sizes, draft)
    tasks = tasks or (max(1, total // nodes) if total and nodes else total)
    gpus = _gpus(sizes, nodes or 1, tasks or 1)
    count = _Count(nodes or 1, tasks or 1)
    _count_ranks(count, sizes, gpus, draft, total=total)
    for name, question in count.questions.items():
        _ask_size(draft, name, question)
    draft.world = count.nodes * count.agents * count.ranks
    agents = "agent" in step
    asked_gpus = gpus
    if gpus is None and (uses_gpus or agents):
        gpus = count.ranks
    _set(draft, "nodes", count.nodes if nodes is not None or count.nodes > 1 else None)
    typed = _typed_gpus(sizes, gpus)
    if typed:
        draft.values["gres"] = [typed]
    else:
        _set(draft, "gpus_per_node", gpus if gpus is not None else 0)
    if count.ranks != (gpus or 1):
        _set(draft, "ntasks_per_node", count.ranks)
    _put_cpus(sizes, draft, agents=agents, tasks=tasks or 1, ranks=count.ranks, gpus=gpus or 0)
    _put_memory(sizes, draft, gpus=gpus or 0, ranks=count.ranks)
    _say(sizes, draft)
    if gpus and count.ranks > gpus:
        reason = f"Muster refuses more ranks on a node than GPUs: here {count.ranks} would share {gpus}"
        draft.revise("ntasks_per_node", Fate.ASKED, str(count.ranks), reason)
    if asked_gpus is None and gpus:
        draft.ask(0, "(no GPUs)", "the script asks for none, and uses them: are they as many as the ranks?",
                  f"-g {gpus}", field="gpus_per_node")  # fmt: skip


def _count_ranks(count: _Count, sizes: _Said, gpus: int | None, draft: Draft, *, total: int | None) -> None:
    """Count the nodes and the ranks of each as the step and the agents do; collect what is not certain."""
    known = {
        "SLURM_NNODES": count.nodes, "SLURM_JOB_NUM_NODES": count.nodes, "SLURM_NTASKS_PER_NODE": count.ranks,
        "SLURM_NTASKS": total or count.nodes * count.ranks, "SLURM_NPROCS": total or count.nodes * count.ranks,
        "SLURM_GPUS_ON_NODE": gpus, "SLURM_GPUS_PER_NODE": gpus,
    }  # fmt: skip
    step = sizes.step
    step_counts = {name: _worked_out(step[name], known) for name in (*_STEP_COUNTS, *_AGENT_COUNTS) if name in step}
    for name, number in step_counts.items():
        if not number and not (name == "ranks" and step[name] in {"gpu", "auto"}):
            count.questions[name] = f"its value is not in the script: {step[name] or 'nothing'}"
    if "starter" in step:
        _of_step(count, step_counts, total)
    else:
        count.ranks = 1
        if draft.command and count.nodes > 1 and step.get("agent") != "deepspeed":
            reason = f"the script starts it on the first of {count.nodes} nodes alone, and Muster on all of them"
            draft.ask(0, "(no srun)", reason)
    if "agent" in step:
        _of_agents(count, step, step_counts, gpus)


_STEP_COUNTS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
_AGENT_COUNTS = ("ranks", "processes", "nnodes")


def _of_step(count: _Count, counts: Mapping[str, int | None], total: int | None) -> None:
    """Count the tasks of the step."""
    nodes = counts.get("nodes")
    if nodes and nodes != count.nodes:
        count.questions["nodes"] = f"the step is on {nodes} of the {count.nodes} nodes: what are the others for?"
        count.nodes = nodes
    of_each, own_total = counts.get("ntasks-per-node"), counts.get("ntasks")
    tasks = own_total or (of_each * count.nodes if of_each else None) or (None if nodes else total)
    if tasks is None:
        return
    if tasks % count.nodes:
        shown = f"{tasks} tasks on {count.nodes} nodes"
        count.questions["ntasks"] = f"{shown}: Muster starts as many on each, so here they are a multiple of it"
    count.ranks = max(1, -(-tasks // count.nodes))


def _of_agents(count: _Count, step: Mapping[str, str], counts: Mapping[str, int | None], gpus: int | None) -> None:
    """Count the ranks that the agents start."""
    nodes, processes, agent = counts.get("nnodes"), counts.get("processes"), step["agent"]
    if "starter" in step and not count.questions.keys() & set(_STEP_COUNTS):
        count.agents = count.ranks
    if nodes and nodes != count.nodes:
        count.questions["nnodes"] = f"the ranks wait for {nodes} nodes, but the job has {count.nodes}"
    elif count.agents > 1:
        count.questions["agent"] = f"the script starts {count.agents} agents on each node, and Muster one"
    elif "nnodes" not in step and count.nodes > 1 and agent != "deepspeed":
        reason = f"it names no number of nodes, so each node is alone; here {count.nodes} are one world"
        count.questions["agent"] = reason
    if processes and processes % count.nodes:
        count.questions["processes"] = f"{processes} ranks on {count.nodes} nodes are not as many on each"
    of_each = counts.get("ranks") or (max(1, processes // count.nodes) if processes else None)
    alone = agent in AGENTS_OF_TORCH and "ranks" not in step
    count.ranks = of_each or (1 if alone else gpus or 1)


def _ask_nodes(sizes: _Said, draft: Draft) -> None:
    directive = sizes.header["ntasks"]
    reason = "Slurm chooses how many nodes these tasks get, and here they are on one: -N says how many"
    draft.ask(directive.place.line, f"{written(directive)} (no -N)", reason)


def _ask_size(draft: Draft, name: str, question: str) -> None:
    """Ask about a flag of the step, in its own row."""
    rows = [row for row in draft.rows if row.field == (f"size {name}" if name != "agent" else "launcher")]
    for row in rows:
        draft.replace(row, Fate.ASKED, row.now, question)
    if not rows:
        draft.ask(0, f"({name})", question)


def _typed_gpus(sizes: _Said, gpus: int | None) -> str | None:
    """Return the GPUs of a node with their type, as --gres says it; None where the script names no type."""
    for name in ("gres", "gpus-per-node", "gpus-per-task", "gpus"):
        text = (sizes.text(name) or "") if sizes.gpus(name) is not None else ""
        item = _gpus_of_gres(text) if name == "gres" else text
        kind = re.match(r"([A-Za-z][\w.-]*)(?=:\d|$|\()", (item or "").replace("gpu:", "", 1))
        if kind and gpus and item != "gpu":
            others = [each for each in text.split(",") if name == "gres" and each != item]
            return ",".join([f"gpu:{kind[1]}:{gpus}", *others])
    return None


def _set(draft: Draft, field: str, value: int | None) -> None:
    if value is not None:
        draft.values[field] = [str(value)]


def _first(text: str | None) -> int | None:
    """Return the first number of 2-4."""
    match = re.match(r"\d{1,6}", text or "")
    return int(match[0]) if match else None


def _nodes(tasks: int | None, total: int | None) -> int | None:
    if total and tasks:
        return max(1, -(-total // tasks))
    return 1 if total == 1 else None


def _gpus(sizes: _Said, nodes: int, tasks: int) -> int | None:
    for name in ("gres", "gpus-per-node"):  # where both stand Slurm 22.05 and 24.11 take the number of --gres
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


def _put_cpus(sizes: _Said, draft: Draft, *, agents: bool, tasks: int, ranks: int, gpus: int) -> None:
    draft.cpus = sizes.number("cpus-per-task")
    cpus = whole_number(sizes.step.get("cpus-per-task", "")) or draft.cpus
    per_gpu = sizes.number("cpus-per-gpu")
    if cpus is None and per_gpu is not None and gpus:
        cpus = max(1, per_gpu * gpus // (1 if agents else tasks))
    is_alone = not sizes.step and draft.command != ()  # the batch host starts the program, on the CPUs of all tasks
    if cpus is None and is_alone and tasks > ranks:
        cpus = 1
    if cpus is None:
        return
    cpus_per_rank = max(1, -(-cpus * tasks // ranks)) if agents or is_alone else cpus
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
            draft.ask(sizes.header[name].place.line, written(sizes.header[name]), error.message, field="mem")
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
    gres = draft.get("gres")
    for name, directive in sizes.header.items():
        subject, line = written(directive), directive.place.line
        field = _OF.get(name, "")
        if subject in told_subjects:
            continue
        if field == "gpus_per_node" and (gres or "").startswith("gpu:"):
            why = "" if directive.value == gres else "with the type of the GPUs, which -g cannot say"
            verdict = Fate.CHANGED if why else Fate.KEPT
            draft.rows.append(PortRow(line, subject, verdict, f"--gres {gres}", why, "gres"))
            continue
        if name == "gres" and _gpus_of_gres(directive.value) is None:
            draft.keep(line, subject, "gres", directive.value or "", "a resource of one site")
            continue
        if not field:
            draft.ask(
                line, subject, "no option of Muster's stands for it: the plan works the sizes out from nodes and GPUs"
            )
            continue
        value = draft.get(field)
        cpus = draft.get("cpus_per_task")
        if field == "ntasks_per_node" and cpus and not sizes.step and "cpus-per-task" not in sizes.header:
            now = " ".join([*(option_words(field, [value]) if value else []), "-c", cpus])
            reason = "one program is started on each node, with the CPUs of its tasks"
            draft.rows.append(PortRow(line, subject, Fate.CHANGED, now, reason, "cpus_per_task"))
            continue
        if value is None:
            draft.note(line, subject, "", "one rank for each GPU, which -g says", field)
            continue
        now = " ".join(option_words(field, [value]))
        if name == "gres" and "," in (directive.value or ""):
            draft.ask(line, subject, "-g says its GPUs alone: the others are resources of one site", now, field=field)
            continue
        number = gpus_of(directive.value) if field == "gpus_per_node" else whole_number(directive.value or "")
        is_same = number == int(value)
        if name == "gpus-per-node" and not is_same and sizes.gpus("gres") is not None:
            draft.ask(
                line, subject, "--gres names another number: Slurm 22.05 and 24.11 take that, 26.05 refuses the job"
            )
            continue
        reason = "" if is_same else _WHY.get(name, "the same size in Muster's words")
        least, _, most = (directive.value or "").partition("-") if name == "nodes" else ("", "", "")
        if most and most != least:
            draft.ask(line, subject, f"Slurm gives the job {least} to {most} nodes: -N says how many", now, field=field)
            continue
        draft.rows.append(PortRow(line, subject, Fate.KEPT if is_same else Fate.CHANGED, now, reason, field))


_WHY = {
    "ntasks": "the ranks of each node",
    "ntasks-per-node": "an agent is one task of Slurm's, and Muster counts ranks",
    "cpus-per-task": "for each rank: an agent's CPUs are divided by its ranks",
    "cpus-per-gpu": "for each rank",
    "gpus": "the GPUs of each node: a sum leaves open where they are",
    "gpus-per-task": "the GPUs of each node: a GPU of its own for each task breaks peer access",
    "nodes": "one number of nodes: the first of a range, or those of the step",
}
