"""What a job holds on a node, and what each of its programs starts there. What is not known is None."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from muster.errors import MusterError
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand, Stage
from muster_lint.program import read_program
from muster_lint.read import read_source
from muster_lint.works import text_of, trains

RANKS_OF_AGENT = ("--nproc-per-node", "--nproc_per_node", "--num_gpus", "--nproc")
NODES_OF_AGENT = ("--nnodes", "--num_machines", "--num_nodes")
TASKS_OF_STEP = ("--ntasks", "-n", "--ntasks-per-node", "--tasks-per-node", "--ntasks-per-gpu")
_EACH_NODE = re.compile(r"\$\{?SLURM_(NNODES|JOB_NUM_NODES)\}?")


_AT_TACC = re.compile(
    r"/(home1|work2?|scratch)/\d{5}/|^[^#\n]*\bibrun\b|^#SBATCH\s+(-p\s*|--partition[ =])(rtx(-dev)?|gpu-a100-small)\s",
    re.MULTILINE,
)
"""Signs of TACC, whose partitions give whole nodes, each with its GPUs."""


def has_whole_nodes(job: BatchScript) -> bool:
    """Tell whether no other job can be on the nodes of this one, and all their GPUs are its own."""
    return "exclusive" in job.header or (job.gpus_per_node or 0) >= 8 or _AT_TACC.search(job.text) is not None


class Use(msgspec.Struct, frozen=True):
    """A program that a job starts, and how often."""

    launch: LaunchCommand
    program: Stage
    """The launcher of the ranks (torchrun and its like), or else Python."""

    step: Stage | None
    """The srun around it, in its own command or around the task's shell."""

    tasks: int | None
    """How often a node that it reaches starts it."""

    ranks: int | None
    """How many ranks each start becomes."""

    @property
    def is_agent(self) -> bool:
        return self.program.kind == "agent"


def uses_of(job: BatchScript) -> list[Use]:
    """Return what the job starts: each launcher of ranks and each Python program."""
    uses = []
    for launch in job.all_launches:
        program = launch.stage("agent") or (launch.stage("python") if trains(launch) else None)
        if program is None or launch.command.in_substitution or _SETS_UP.search(text_of(launch.command)):
            continue
        task = job.task_of(launch)
        step = launch.stage("step") or (task.launch.stage("step") if task is not None else None)
        starts = tasks_of(job, step) if step is not None else None if launch.stage("mpi") else 1
        uses.append(Use(launch, program, step, starts, _ranks_of(job if task is None else None, program)))
    return uses


_SETS_UP = re.compile(r"-m (pip|venv|virtualenv|build|ensurepip|compileall)(?![\w.])|\bsetup\.py\b")
"""Python that makes an environment for the work."""


def _ranks_of(job: BatchScript | None, program: Stage) -> int | None:
    """Return how many ranks one start of a program becomes on its node."""
    text = program.text(*RANKS_OF_AGENT) if program.kind == "agent" else "1"
    if text is None:
        return None if program.hidden or program.name in {"deepspeed", "accelerate"} else 1
    return number_of(job, text)


def number_of(job: BatchScript | None, text: str) -> int | None:
    """Return the number that a text is: its own digits, or those of a variable that surely has them in this script."""
    name = re.fullmatch(r"\$\{?(\w+)\}?", text)
    if name and name[1] == "SLURM_GPUS_ON_NODE" and job is not None:
        return job.gpus_per_node
    values = job.shell.assigned(name[1]) if name and job is not None else ()
    if len(values) == 1 and values[0].value is not None and not (values[0].may_not_run or values[0].of_command):
        text = values[0].value.value
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else None


def nodes_of(job: BatchScript, step: Stage | None) -> int | None:
    """Return how many nodes a step takes, or else the job."""
    text = step.text("-N", "--nodes") if step is not None else None
    if text is None or _EACH_NODE.fullmatch(text):
        return job.nodes
    return int(text) if text.isdigit() else None


def tasks_of(job: BatchScript, step: Stage) -> int | None:
    """Return how many tasks of a step a node gets."""
    text = step.text("--ntasks-per-node", "--tasks-per-node")
    if text and text.isdigit():
        return int(text)
    total, count = step.text("-n", "--ntasks"), nodes_of(job, step)
    if total and _EACH_NODE.fullmatch(total):
        return 1
    if total and total.isdigit():
        return int(total) // count if count and int(total) % count == 0 else None
    return None if total else job.tasks_per_node


def cpus_of_node(job: BatchScript) -> int | None:
    """Return the CPUs of a node that the header asks for."""
    bound = job.header["hint"].value if "hint" in job.header else ""
    if job.header.keys() & _GIVES_CPUS or job.first_header is not None or bound in {"compute_bound", "memory_bound"}:
        return None
    per_gpu, per_task = job.header.get("cpus-per-gpu"), job.header.get("cpus-per-task")
    if per_gpu is not None:
        number, count = per_gpu.value or "", job.gpus_per_node
    else:
        number = "1" if per_task is None else per_task.value or ""
        count = job.tasks_per_node or (1 if "ntasks" not in job.header else None)
        if count is None and "nodes" not in job.header and (job.header["ntasks"].value or "").isdigit():
            count = int(job.header["ntasks"].value or "")
    return int(number) * count if re.fullmatch(r"[0-9]{1,6}", number) and count else None


_GIVES_CPUS = {
    "exclusive", "mincpus", "cores-per-socket", "extra-node-info", "sockets-per-node", "tres-per-task",
    "threads-per-core", "ntasks-per-gpu",
}  # fmt: skip
"""The options that may give a task other CPUs than the header counts."""


def scripts_beside(job: BatchScript) -> Iterator[tuple[LaunchCommand, Path]]:
    """Yield the Python scripts that a batch script starts by name and that lie beside it."""
    folder = Path() if job.path == "-" else Path(job.path).parent
    for launch in job.all_launches:
        script = launch.script
        if script is None or not re.fullmatch(r"[\w./+-]+\.py", script.value):
            continue
        for place in (folder / script.value, Path(script.value)):
            if place.is_file():
                yield launch, place
                break


def text_of_program(path: Path) -> tuple[bool, str]:
    """Return the text of a Python program and of the files beside it that it imports, and whether that is all of it."""
    texts: list[str] = []
    unread, is_whole = [path], True
    for each in unread:  # it grows
        try:
            texts.append(read_source(str(each)).text)
        except MusterError:
            return False, "\n".join(texts)
        lines = re.findall(r"^\s*(?:import|from)\s+([\w., ]+)", texts[-1], re.MULTILINE)
        names = {name for line in lines for name in re.findall(r"[\w.]+", line.partition(" import")[0])}
        own = [name for name in names if (path.parent / name.strip(".").partition(".")[0]).is_dir()]
        is_whole = is_whole and not [name for name in own if name.strip(".")]
        beside = [path.parent / f"{name.strip('.')}.py" for name in sorted(names)]
        unread += [file for file in beside if file not in unread and file.is_file() and len(unread) < _MOST_FILES]
    return is_whole and len(unread) < _MOST_FILES, "\n".join(texts)


_MOST_FILES = 40


def trainer_numbers(path: Path, *names: str) -> Iterator[tuple[str, int]]:
    """Yield the numbers that a script gives Lightning's Trainer under these names."""
    import ast

    try:
        program = read_program(str(path), read_source(str(path)).text)
    except (MusterError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the look at the script itself says so
    for call in program.calls:
        if re.fullmatch(r"(pytorch_lightning|lightning|lightning_fabric)(\.\w+)*\.(Trainer|Fabric)", call.name):
            for name in names:
                value = call.argument(name)
                if isinstance(value, ast.Constant) and type(value.value) is int:
                    yield name, value.value
