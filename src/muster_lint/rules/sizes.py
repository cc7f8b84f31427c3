"""Rules on sizes: what a job holds against what its programs start. Long: one rule after the other, each with its examples."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import Word
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand, Stage
from muster_lint.rule import rule
from muster_lint.samples import AGENT, MEET, NODES, STEP, TASKS, TIME
from muster_lint.sizes import (
    NODES_OF_AGENT,
    RANKS_OF_AGENT,
    TASKS_OF_STEP,
    Use,
    cpus_of_node,
    has_whole_nodes,
    nodes_of,
    number_of,
    scripts_beside,
    text_of_program,
    trainer_numbers,
    uses_of,
)
from muster_lint.values import Hit, Severity
from muster_lint.works import AT_ONCE, MODEL_SERVER, is_work, text_of

_ONE = "#!/bin/bash\n#SBATCH --nodes=1\n"
_SPREADS = r"\b(srun|\w*mpi\w*|horovodrun|ibrun|ssh|pdsh|parallel|ray|dask|SLURM_\w*(NTASKS|NPROCS|NODELIST)\w*)\b"


def _sized(stage: Stage) -> bool:
    """Tell whether a step says itself how many tasks or nodes it takes."""
    return stage.has(*TASKS_OF_STEP, "-N", "--nodes")


@rule(
    "tasks-without-nodes",
    Severity.FRAGILE,
    "tasks in all, but no number of nodes or tasks of a node",
    why="Slurm may spread --ntasks unevenly over any number of nodes: local ranks and GPUs then do not match.",
    instead="Give --nodes and --ntasks-per-node.",
    source=sources.SBATCH,
    bad="#!/bin/bash\n#SBATCH --ntasks=8\n#SBATCH --gres=gpu:4\n" + TIME + STEP,
    good=TASKS.replace("gpus-per-node=4", "gres=gpu:4") + STEP,
)
def find_free_tasks(job: BatchScript) -> Iterator[Hit]:
    """Yield --ntasks above 1 that nothing ties to nodes."""
    tasks = job.header.get("ntasks")
    if tasks is None or tasks.value in {"1", None} or {"ntasks-per-node", "ntasks-per-gpu"} & job.header.keys():
        return
    if str(job.nodes) == tasks.value:
        return  # as many tasks as nodes: each node gets one
    starts_ranks = any(each.stage("python") and not each.stage("agent") for each in job.steps)
    if starts_ranks and job.asks_for_gpus and ("nodes" not in job.header or (job.nodes or 0) > 1):
        yield Hit(tasks.place, f"--ntasks={tasks.value} leaves open how many tasks a node gets")


@rule(
    "tasks-as-cpus",
    Severity.FRAGILE,
    "several tasks, and nothing that starts them",
    why="""A task is a process that srun starts, and a program without srun is one process. The CPUs of the other tasks idle where they lie
    on other nodes, and what reads SLURM_NTASKS, as Lightning does, takes itself for one of several ranks.""",
    instead="Ask for one task with several CPUs: --ntasks=1 --cpus-per-task=N.",
    source=sources.SBATCH,
    bad="#!/bin/bash\n#SBATCH --ntasks=8\n" + TIME + "python train.py\n",
    good="#!/bin/bash\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=8\n" + TIME + "python train.py\n",
)
def find_unstarted_tasks(job: BatchScript) -> Iterator[Hit]:
    """Yield the tasks of a header whose programs nothing starts over them: a node starts one."""
    of_node, total = job.header.get("ntasks-per-node"), job.header.get("ntasks")
    tasks = of_node or total
    if (
        tasks is None
        or not re.fullmatch(r"[0-9]{1,6}", tasks.value or "")
        or re.search(_SPREADS, re.sub(r"\s#.*", "", job.body))
    ):
        return
    lonely_ranks = list(_lonely_ranks(job, int(total.value or "") if total is tasks else None))
    yield from lonely_ranks
    if lonely_ranks or int(tasks.value or "") < 2 or (total is not None and total.value == "1"):
        return
    plain = [each for each in job.launches if (is_work(job, each) and each.stage("python")) or _names_python(each)]
    agents = [use for use in uses_of(job) if use.is_agent and use.step is None]
    if (plain or agents) and not any(each.unknown or each.command.in_background for each in plain):
        fixed = {"nodes", "ntasks-per-node", "nodelist", "ntasks-per-core", "mincpus"} & job.header.keys()
        name = "the program" if plain else agents[0].program.name
        if fixed:
            of_each = " of each node" if of_node is not None and (job.nodes or 1) > 1 else ""
            message = f"{tasks.value} tasks{of_each} are asked for, and nothing starts {name} in them"
            reads = any(_LIGHTNING.search(text_of_program(path)[1]) for _, path in scripts_beside(job))
            yield Hit(tasks.place, message, severity=None if reads else Severity.STYLE)  # else they are its CPUs
        else:
            message = f"{tasks.value} tasks may lie on several nodes, and {name} runs on the first"
            yield Hit(tasks.place, message, unknown="how many CPUs a node has free")


_LIGHTNING = re.compile(r"^\s*(import|from) (pytorch_)?lightning\b", re.MULTILINE)
"""It takes SLURM_NTASKS for the number of its ranks."""


def _lonely_ranks(job: BatchScript, total: int | None) -> Iterator[Hit]:
    """Yield the first program that is told of srun as its launcher, in a job of several tasks that has no srun."""
    tasks = total or (job.tasks_per_node or 1) * (job.nodes or 1)
    for launch in job.launches if tasks > 1 else ():
        stage = launch.stage("python")
        words = " ".join(word.value for word in stage.words) if stage is not None else ""
        if _TOLD_OF_SRUN.search(words) and not (launch.command.in_substitution or launch.stage("agent")):
            message = (
                f"it is told that srun has started it, and waits for {tasks - 1} of {tasks} ranks that nothing starts"
            )
            instead = "Write srun in front of it. Without srun tell it of no launcher."
            yield Hit(launch.command.place, message, instead, severity=Severity.HANGS)
            return


_TOLD_OF_SRUN = re.compile(r"(^|\s)--launcher[= ][\"']?slurm\b")
"""The option of OpenMMLab's programs: they take their rank and the number of ranks from Slurm's variables."""


def _names_python(launch: LaunchCommand) -> bool:
    """Tell whether a script of its own is given a Python program."""
    words = [word.value for word in launch.command.words]
    return bool(words) and words[0].endswith(".sh") and any(word.endswith(".py") for word in words[1:])


@rule(
    "tasks-of-node-unused",
    Severity.FRAGILE,
    "fewer tasks in all than another option names",
    why="Where both stand --ntasks counts, and --ntasks-per-node is the most that a node may get: --ntasks=2 is two tasks. sbatch lowers --nodes to --ntasks. On a lab of Slurm 26.05 a job of --ntasks=1 and --ntasks-per-node=4 still waited after two minutes.",
    instead="Remove --ntasks, or give all tasks: nodes times tasks of a node.",
    source=sources.SBATCH,
    bad=_ONE + TIME + "#SBATCH --ntasks=2\n#SBATCH --ntasks-per-node=4\n" + STEP,
    good=_ONE + TIME + "#SBATCH --ntasks-per-node=4\n" + STEP,
)
def find_unused_tasks(job: BatchScript) -> Iterator[Hit]:
    """Yield --ntasks-per-node above --ntasks: of a header whose size a step takes, and of a step."""
    steps = [stage for each in job.steps if not each.command.in_substitution and (stage := each.stage("step"))]
    total, per_node = job.header.get("ntasks"), job.header.get("ntasks-per-node")
    nodes = job.header.get("nodes")
    if total is not None and nodes is not None and _is_below(total.value, nodes.value):
        yield Hit(nodes.place, f"--ntasks={total.value} counts: sbatch lowers the nodes to {total.value}")
    takes_header = any(not (stage.has(*TASKS_OF_STEP) or stage.hidden) for stage in steps)
    if total is not None and per_node is not None and takes_header and _is_below(total.value, per_node.value):
        yield Hit(per_node.place, f"--ntasks={total.value} counts: a step has no {per_node.value} tasks")
    for stage in steps:
        in_all, of_node = stage.text("--ntasks", "-n"), stage.text("--ntasks-per-node", "--tasks-per-node")
        if _is_below(in_all, of_node):
            yield Hit(stage.word.place, f"--ntasks={in_all} counts: this step has no {of_node} tasks")


def _is_below(in_all: str | None, of_node: str | None) -> bool:
    """Tell whether both are numbers, and the first is the smaller one."""
    numbers = [int(each) for each in (in_all, of_node) if each is not None and re.fullmatch(r"[0-9]{1,6}", each)]
    return len(numbers) == 2 and 0 < numbers[0] < numbers[1]


@rule(
    "gpus-in-all",
    Severity.STYLE,
    "GPUs in all instead of GPUs of a node",
    why="--gpus=N may give one node more GPUs than another; ranks and GPUs then do not match.",
    instead="Give --gpus-per-node, or --gres=gpu:N.",
    source=sources.SBATCH,
    bad=TASKS.replace("gpus-per-node=4", "gpus=8") + STEP,
    good=TASKS + STEP,
)
def find_gpus_in_all(job: BatchScript) -> Iterator[Hit]:
    """Yield --gpus that says nothing of a node: of several nodes, or of any number with a launcher on the first."""
    gpus = job.header.get("gpus")
    if gpus is None or {"gpus-per-node", "gres", "exclusive", "gpus-per-task"} & job.header.keys():
        return
    if job.nodes is not None and job.nodes > 1:
        yield Hit(gpus.place, f"--gpus={gpus.value} over {job.nodes} nodes does not say how many a node gets")
    many = re.fullmatch(r"(?:[A-Za-z]\w*:)?([2-9]|\d\d)", gpus.value or "")
    uses = uses_of(job)
    if many and not {"nodes", "nodelist"} & job.header.keys() and uses and all(use.step is None for use in uses):
        message = f"{many[1]} GPUs may lie on several nodes, and {uses[0].program.name} runs on the first"
        unknown = "how many GPUs a node has free"
        yield Hit(gpus.place, message, "Add --nodes=1.", unknown=unknown, severity=Severity.FRAGILE)


@rule(
    "more-ranks-than-gpus",
    Severity.BREAKS,
    "more ranks on a node than GPUs",
    why="Two ranks on one GPU stop NCCL (duplicate GPU detected), or share its memory.",
    instead="Start as many ranks on a node as the header asks for GPUs of a node.",
    source=sources.SBATCH,
    bad=TASKS.replace("tasks-per-node=4", "tasks-per-node=8") + STEP,
    good=TASKS + STEP,
)
def find_too_many_ranks(job: BatchScript) -> Iterator[Hit]:
    """Yield a launcher told more ranks than a node has GPUs, and a header whose step starts more Python programs."""
    gpus, told = job.gpus_per_node or 0, False
    yield from _beyond_task(job)
    if "gpu-bind" in job.header and re.search(r"single:([2-9]|\d\d)", job.header["gpu-bind"].value or ""):
        return  # several tasks share a GPU on purpose
    for use in uses_of(job) if gpus else ():
        ranks = _local_ranks(job, use) or 0
        if ranks > gpus and "gpus-per-task" not in job.header:
            place = use.program.place_of(*RANKS_OF_AGENT, "--num_processes")
            names = use.program.name == "deepspeed" and use.program.has("--num_gpus")  # it drops the variable
            named = max((each[1].count(",") + 1 for each in _NAMED.finditer(job.body)), default=0)
            sees = "which GPUs of the node Slurm hides" if names or named >= ranks else ""
            shares = "whether every rank uses one" if _MAY_SHARE.search(job.body) else ""
            shares = shares or ("how many GPUs the whole node has" if "exclusive" in job.header else "")
            unknown = use.launch.unknown or shares or sees
            yield Hit(place, f"{ranks} ranks of a node share {gpus} GPUs", unknown=unknown)
        is_of_header = use.step is not None and not _sized(use.step) and "gpus-per-task" not in job.header
        if not use.is_agent and is_of_header and (use.tasks or 0) > gpus and not use.launch.unknown and not told:
            told, directive = True, job.header.get("ntasks-per-node") or job.header["ntasks"]
            message = f"{use.tasks} ranks of a node share {gpus} GPUs"
            yield Hit(directive.place, message, unknown="whether every rank uses one")


def _beyond_task(job: BatchScript) -> Iterator[Hit]:
    """Yield a launcher told more ranks than its task sees GPUs: those of --gpus-per-task."""
    for use in uses_of(job):
        gpus, ranks = _gpus_of_task(job, use), _local_ranks(job, use) or 0
        is_alone = (use.tasks or 1) == 1 and (
            use.step is not None or job.has_one_task
        )  # agents-on-every-task says the others
        if gpus is not None and ranks > gpus and is_alone:
            shares = "whether every rank uses one" if _MAY_SHARE.search(job.body) else ""
            whole = "how many GPUs the whole node has" if use.step is None and "exclusive" in job.header else ""
            unknown = use.launch.unknown or shares or whole or _unknown_binding(job, use)
            message = f"its task sees {_counted(gpus)} (--gpus-per-task), and it starts {ranks} ranks"
            yield Hit(use.program.place_of(*RANKS_OF_AGENT, "--num_processes"), message, unknown=unknown)


def _counted(gpus: int) -> str:
    return f"{gpus} GPU{'s' * (gpus != 1)}"


def _gpus_of_task(job: BatchScript, use: Use) -> int | None:
    """Return the GPUs that --gpus-per-task gives the task of a program; None where no such option holds for it."""
    own = use.step.text("--gpus-per-task") if use.step is not None else None
    is_sized = use.step is not None and use.step.has("--gres", "--gpus", "-G", "--gpus-per-node", "--tres-per-task")
    directive = job.header.get("gpus-per-task")
    asked = own or (directive.value if directive is not None and not is_sized else None) or ""
    number = re.fullmatch(r"(?:[A-Za-z]\w*:)?([1-9]\d?)", asked)
    return int(number[1]) if number else None


def _unknown_binding(job: BatchScript, use: Use) -> str:
    """Return what is not known of the GPUs that Slurm shows a task; empty where they are its own alone."""
    binding = (use.step.text("--gpu-bind") if use.step is not None else None) or ""
    binding = binding or (job.header["gpu-bind"].value or "" if "gpu-bind" in job.header else "")
    is_known = not binding or re.match(r"(verbose,|v,)?(per_task|single|map)", binding) is not None
    return "" if is_known else f"which GPUs --gpu-bind={binding} shows it"


def _local_ranks(job: BatchScript, use: Use) -> int | None:
    """Return how many ranks a launcher starts beside each other; None where that is not known, or it uses no GPU."""
    if not use.is_agent or use.program.has("--cpu", "--use_cpu"):
        return None
    if use.program.name == "accelerate" and use.program.text("--num_machines") in {None, "1"}:
        return number_of(job, use.program.text("--num_processes") or "") if (job.nodes or 1) == 1 else None
    return use.ranks


_NAMED = re.compile(r"(?:CUDA_VISIBLE_DEVICES=|--include\s+\w+:)[\"']?([\d,]+)")
_MAY_SHARE = re.compile(
    r"gloo(?!_)|no[-_]cuda|use[-_]cpu|(device|accelerator)[= ]cpu\b|cuda-mps"
    r"|CUDA_VISIBLE_DEVICES=(\"\"|''|[\"']?-1|\s|;|$)",
    re.MULTILINE,
)
"""Signs that ranks use no GPU, or share one on purpose."""


@rule(
    "agents-on-every-task",
    Severity.BREAKS,
    "torchrun in each of several tasks of a node",
    why="Each task starts all ranks of its node again: four tasks × four processes want the same GPUs.",
    instead="Start one task on each node: --ntasks-per-node=1.",
    source=sources.TORCHRUN,
    bad=TASKS + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_many_agents(job: BatchScript) -> Iterator[Hit]:
    """Yield launchers of several ranks under a step with several tasks of a node."""
    for use in uses_of(job):
        if use.step is None or not use.is_agent or (use.tasks or 1) < 2 or use.ranks == 1:
            continue
        task, endpoint = job.task_of(use.launch), use.program.text("--rdzv-endpoint", "--rdzv_endpoint")
        unknown = use.launch.unknown if use.step.hidden else ""
        is_told = task is not None and re.search(r"SLURM_LOCALID|SLURM_PROCID", task.shell.text)
        has_own = "gpus-per-task" in job.header or use.step.has("--gpus-per-task") or endpoint == "localhost:0"
        if has_own or use.program.has("--standalone") or (is_told and not use.program.has("--nnodes")):
            unknown = unknown or "whether each task is a run of its own"
        message = f"{use.tasks} tasks of each node start {use.program.name}, and each starts all ranks of the node"
        gpus = _gpus_of_task(job, use)
        if gpus is not None and (use.ranks or 0) > gpus:
            message = f"{use.tasks} tasks of each node start {use.program.name}: each sees {_counted(gpus)}, and starts {use.ranks} ranks"
            unknown = use.launch.unknown or _unknown_binding(job, use)
        yield Hit(use.program.word.place, message, unknown=unknown)


@rule(
    "nodes-disagree",
    Severity.HANGS,
    "torchrun expects another number of nodes than the job has",
    why="The agents wait for nodes that are not there, or some nodes are turned away.",
    instead='Use Slurm\'s number: --nnodes="$SLURM_JOB_NUM_NODES".',
    source=sources.TORCHRUN,
    bad=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT.replace('"$SLURM_JOB_NUM_NODES"', "4"),
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_other_nodes(job: BatchScript) -> Iterator[Hit]:
    """Yield a literal number of nodes that differs from the header."""
    for use in uses_of(job):
        own = None if job.task_of(use.launch) else job
        number = number_of(own, use.program.text(*NODES_OF_AGENT) or "") if use.is_agent else None
        if number is None or job.nodes is None or number == job.nodes:
            continue
        is_more = number > job.nodes
        place, message = use.program.place_of(*NODES_OF_AGENT), f"{use.program.name} expects {number} nodes"
        if use.step is not None and not use.step.has("-N", "--nodes", "-n", "--ntasks"):
            severity = Severity.HANGS if is_more else Severity.SLOW
            message += f", but the job has {job.nodes}"
            yield Hit(place, message, unknown=use.launch.unknown, severity=severity)
        elif use.step is None and use.tasks == 1 and is_more and job.nodes == 1 and not re.search(r"\bssh\b", job.text):
            yield Hit(place, f"{message}, but the job has one", unknown="whether other jobs are the other nodes")


@rule(
    "gpus-idle",
    Severity.SLOW,
    "fewer ranks on a node than GPUs",
    why="The GPUs that no process uses are paid for and idle.",
    instead="Start one process for each GPU.",
    source=sources.TORCHRUN,
    bad=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT.replace("node=4", "node=2"),
    good=NODES + MEET + "srun --kill-on-bad-exit=1 " + AGENT,
)
def find_idle_gpus(job: BatchScript) -> Iterator[Hit]:
    """Yield the one program of a job that has fewer ranks on a node than the node has GPUs."""
    gpus, uses = job.gpus_per_node or 0, uses_of(job)
    agents = [use for use in uses if use.is_agent]
    is_alone = len(agents) == 1 and not (agents[0].launch.command.in_background or agents[0].launch.command.function)
    if is_alone and 0 < (agents[0].ranks or 0) < gpus and agents[0].program.has(*RANKS_OF_AGENT):
        place = agents[0].program.place_of(*RANKS_OF_AGENT)
        yield Hit(place, f"{agents[0].ranks} of {gpus} GPUs of a node are used")
    for each in job.shell.commands:
        told = each.option("-np") if each.program == "torchpack" and not each.in_substitution else None
        if told is not None and told.value.isdigit() and job.nodes == 1 and 0 < int(told.value) < gpus:
            yield Hit(told.place, f"torchpack starts {told.value} process{'es' * (told.value != '1')} for {gpus} GPUs")
    ranks = [use for use in uses if use.step is not None and not use.is_agent and not use.launch.unknown]
    if len(ranks) == 1 and 1 < (job.tasks_per_node or 0) < gpus and not ranks[0].launch.command.in_background:
        step = ranks[0].step
        if step is not None and not _sized(step):
            unknown = "whether a rank uses several GPUs"
            yield Hit(step.word.place, f"{job.tasks_per_node} ranks of a node have {gpus} GPUs", unknown=unknown)


@rule(
    "one-process-many-gpus",
    Severity.SLOW,
    "one process for several GPUs",
    why="""A Python program without a launcher is one process: unless it divides its model or its data itself, the other GPUs
    idle, and they are paid for.""",
    instead="Start a process for each GPU: torchrun --nproc-per-node=N, or srun with as many tasks. Or ask for one GPU.",
    source=sources.TORCH_DDP,
    bad=_ONE + "#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=4\n" + TIME + "python train.py\n",
    good=_ONE
    + "#SBATCH --gres=gpu:4\n#SBATCH --cpus-per-task=4\n"
    + TIME
    + "torchrun --standalone --nproc-per-node=4 train.py\n",
)
def find_lone_processes(job: BatchScript) -> Iterator[Hit]:
    """Yield the one process of a job with several GPUs of a node."""
    gpus = job.gpus_per_node
    if not gpus or gpus < 2:
        return
    yield from _lone_servers(job, gpus)
    uses = [use for use in uses_of(job) if use.launch in job.launches]
    if re.search(_DIVIDES, job.body, re.IGNORECASE) or _TOLD_OF_SRUN.search(job.body):
        return
    if len(uses) != 1:
        yield from _lone_in_a_row(job, uses, gpus)
        return
    launch, program, step = uses[0].launch, uses[0].program, uses[0].step
    command, mpi = launch.command, launch.stage("mpi")
    if mpi is not None and mpi.text("-np", "-n", "--np", "--n") != "1":
        return
    if command.in_background or command.in_loop or launch.unknown or command.function:
        return
    beside = [each for each in job.launches if each is not launch and (each.stage("mpi") or each.stage("step"))]
    if any(each.stages[-1].name not in AT_ONCE and not each.command.in_substitution for each in beside):
        return  # what srun or mpirun starts may use them
    if uses[0].is_agent:
        sizes = (*RANKS_OF_AGENT, "--num_processes", "--config_file")
        is_known = program.name in {"torchrun", "torch.distributed.run", "torch.distributed.launch"}
        if is_known and not program.has(*sizes) and "PET_" not in job.text:
            message = f"{program.name} without --nproc-per-node starts one process, for {gpus} GPUs"
            yield Hit(program.word.place, message)
        return
    if step is not None:
        tasks, in_all = job.tasks_per_node or 1, step.text("-n", "--ntasks")
        is_first = tasks == 1 and in_all is None and "ntasks-per-gpu" not in job.header
        alone = in_all == "1" or job.has_one_task or is_first
        if not alone or step.has("--ntasks-per-node", "--tasks-per-node"):
            return
    path = next((path for each, path in scripts_beside(job) if each is launch), None)
    is_whole, source = text_of_program(path) if path is not None else (False, "")
    if re.search(rf"{_DIVIDES}|{_DIVIDES_IN_PYTHON}", source, re.IGNORECASE):
        return
    unknown = "" if is_whole and "import torch" in source else "whether the program divides its work itself"
    message, look = f"one process has {gpus} GPUs of a node", "srun --jobid ID --overlap nvidia-smi"
    act = f"Look at the GPUs of the running job: {look}. Where the others idle ask for one GPU, or start a process for each."
    severity = None if is_whole else Severity.STYLE  # of six such programs that were looked up all six used all GPUs
    yield Hit(command.place, message, act, unknown=unknown, severity=severity)


def _lone_in_a_row(job: BatchScript, uses: list[Use], gpus: int) -> Iterator[Hit]:
    """Yield the first of several plain Pythons that run one after the other, where nothing else uses the GPUs."""
    plain = [use for use in uses if not use.is_agent and use.launch.stage("mpi") is None and not use.launch.unknown]
    steps = any(use.step is not None for use in uses) or any(
        each.stage("step") or each.stage("mpi") for each in job.launches
    )
    beside = any(each.in_background for each in job.shell.commands)
    others = [each for each in job.launches if is_work(job, each) and each not in [use.launch for use in uses]]
    if uses and len(plain) == len(uses) and not (steps or beside or others) and not _PREPARES.search(job.body):
        unknown = "whether they divide their work themselves"
        message = f"{len(uses)} programs run one after the other, and each is one process for {gpus} GPUs"
        yield Hit(uses[0].launch.command.place, message, unknown=unknown, severity=Severity.STYLE)


_PREPARES = re.compile(r"\b(prep|convert|download|eval|test|merge|tokeni|sbatch)", re.IGNORECASE)


def _lone_servers(job: BatchScript, gpus: int) -> Iterator[Hit]:
    """Yield a server of models that takes one GPU unless it is told more, in a job with several GPUs of a node."""
    servers = [each for each in job.commands if not each.in_substitution and MODEL_SERVER.search(text_of(each))]
    if len(servers) != 1 or servers[0].in_loop or re.search(r"CUDA_VISIBLE_DEVICES|\bray\b", job.text):
        return
    sized = re.search(
        r"(^|\s)(-tp|-pp|-dp|--tp|--dp|--pp|--config|--(tensor|pipeline|data)[-_]parallel)", text_of(servers[0])
    )
    if sized is None and not any(word.may_be_several for word in servers[0].words):
        yield Hit(servers[0].place, f"without --tensor-parallel-size it uses one of {gpus} GPUs of a node")


_DIVIDES = (
    r"tensor.?parallel|CUDA_VISIBLE_DEVICES|--?gpus?\b|--num.?gpus|--devices|--n.?gpu|mp\.spawn|\bray\b|DataParallel"
    r"|lightning|--?n_?gpus|device.?ids|client|world.?size|--tp\b|pipeline|device_map|multi.?gpu|--gpu.?ids?|vllm"
    r"|gpu_?num|num_?gpu|deepy|launch\w*\.py|dist.?url|multiprocessing.?dist"
    r"|gpus?.?per|\bn?_?gpus?=|per_(device|gpu)_|(?<![a-z])ddp(?![a-z])|distribut(?!ed\.(run|launch))|data.?parallel|mirrored"
)


_DIVIDES_IN_PYTHON = (
    r"\bspawn\b|accelerat|trainer|distribut|mirrored|cuda:[1-9{]|pmap|shard|max_memory|n_?gpu|joblib|multiprocess|gpus"
)


@rule(
    "size-told-differs",
    Severity.FRAGILE,
    "the program is told another size than the job has",
    why="""A program that is told fewer GPUs than the job has leaves the others idle. With more nodes or GPUs than there are it waits for ranks that
    do not exist, or stops; Lightning stops where its devices are not the tasks of a node.""",
    instead="Give the program the job's own numbers: $SLURM_JOB_NUM_NODES, and the GPUs or tasks of a node.",
    source="Lightning-AI/pytorch-lightning src/lightning/fabric/plugins/environments/slurm.py (validate_settings)",
    bad=TASKS + "srun --kill-on-bad-exit=1 python train.py --num_nodes 4 --devices 4\n",
    good=TASKS + "srun --kill-on-bad-exit=1 python train.py --num_nodes 2 --devices 4\n",
)
def find_told_sizes(job: BatchScript) -> Iterator[Hit]:
    """Yield the numbers of nodes and GPUs in a program's own words, and in a script beside it that are not the job's."""
    uses = uses_of(job)
    beside = {id(launch): path for launch, path in scripts_beside(job)}
    for use in uses:
        if use.is_agent or use.launch.command.in_background or use.launch.command.in_loop or len(uses) > 1:
            continue
        nodes = nodes_of(job, use.step)
        its_nodes = f"{'the job' if nodes == job.nodes else 'its step'} has {nodes}"
        for name, number, word in _told_numbers(job, use):
            is_of_job = (nodes or 0) > 1 or "trainer." in name  # a graph has nodes too
            if name in _TELLS_NODES and nodes and is_of_job and number != nodes and number <= max(64, 4 * nodes):
                message = f"{name} tells the program {number} nodes, and {its_nodes}"
                yield Hit(word.place, message, unknown=f"what {name} means to it")
            elif name in _TELLS_GPUS and number <= _MOST_GPUS:
                yield from _compared(job, use, number, word, f"{name} tells the program", f"what {name} means to it")
        path, script = beside.get(id(use.launch)), use.launch.script
        for name, number in (
            trainer_numbers(path, "devices", "gpus", "num_nodes") if path is not None and script else ()
        ):
            said, unknown = f"{path and path.name} tells Lightning", "which version of Lightning runs"
            if name == "num_nodes" and script is not None and nodes and number != nodes:
                yield Hit(script.place, f"{said} {number} nodes, and {its_nodes}", unknown=unknown)
            elif name != "num_nodes" and number > 0 and script is not None:
                yield from _compared(job, use, number, script, said, unknown)


def _compared(job: BatchScript, use: Use, number: int, word: Word, said: str, unknown: str) -> Iterator[Hit]:
    """Yield a number of GPUs that is neither what a node has nor what its tasks are."""
    gpus, tasks = job.gpus_per_node, use.tasks
    if gpus and tasks == 1 and number != gpus:
        severity = Severity.SLOW if number < gpus else Severity.FRAGILE
        if number > gpus or (job.nodes or 1) == 1:
            yield Hit(word.place, f"{said} {number} of {gpus} GPUs", unknown=unknown, severity=severity)
    elif gpus and tasks and tasks > 1 and number not in {0, 1, tasks}:
        message = f"{said} {number} GPUs, and a node starts it {tasks} times for {gpus} GPUs"
        yield Hit(word.place, message, unknown=unknown)


def _told_numbers(job: BatchScript, use: Use) -> Iterator[tuple[str, int, Word]]:
    """Yield the literal sizes in a program's own words: each with its name and its word."""
    words = use.program.words
    for index, word in enumerate(words):
        name, equals, value = word.value.partition("=")
        if name not in _TELLS_GPUS | _TELLS_NODES:
            continue
        told = value if equals else (words[index + 1].value if index + 1 < len(words) else "")
        held = job.shell.value_of(told.strip("${}")) if told.startswith("$") else None
        number = held.value if held is not None else told
        if re.fullmatch(r"[1-9][0-9]{0,3}", number):
            yield name, int(number), word


_MOST_GPUS = 16
"""A node has no more: a larger number behind --devices counts something else."""

_TELLS_GPUS = frozenset(
    "--gpus --num_gpus --num-gpus --ngpus --n_gpus --devices --gpus_per_node trainer.devices trainer.gpus".split()  # noqa: SIM905
)
_TELLS_NODES = frozenset("--num_nodes --num-nodes --nnodes trainer.num_nodes --trainer.num_nodes".split())  # noqa: SIM905


@rule(
    "one-cpu",
    Severity.STYLE,
    "GPUs, and no more CPUs than GPUs",
    why="A task has the CPUs of --cpus-per-task; without it one, unless the site gives more with a GPU: what loads data beside it waits.",
    instead="Write --cpus-per-task with as many as the site has for each GPU.",
    source=sources.SBATCH,
    bad=_ONE + "#SBATCH --gres=gpu:1\n" + TIME + "python train.py\n",
    good=_ONE + "#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=8\n" + TIME + "python train.py\n",
)
def find_one_cpu(job: BatchScript) -> Iterator[Hit]:
    """Yield the directive of the CPUs, or of the GPUs, where a node of the job has no more CPUs than GPUs."""
    cpus, gpus = cpus_of_node(job), job.gpus_per_node or 1
    if cpus is None or cpus > gpus or not (job.asks_for_gpus and uses_of(job)) or _has_other_cpus(job):
        return
    tasks = ("ntasks-per-node",) if (job.tasks_per_node or 1) > 1 else ()
    names = ("cpus-per-task", "cpus-per-gpu", *tasks, "gres", "gpus", "gpus-per-node", "gpus-per-task")
    directive = next(job.header[name] for name in [*names, *job.header] if name in job.header)
    asked = f"{gpus} GPUs of a node" if gpus > 1 else "a GPU"
    message = f"the job asks for {asked}, and for {'one CPU' if cpus == 1 else f'{cpus} CPUs'}"
    yield Hit(directive.place, message, unknown=_CPUS_OF_SITE)


_CPUS_OF_SITE = "how many CPUs the site gives with a GPU"


def _has_other_cpus(job: BatchScript) -> bool:
    """Tell whether a step says its CPUs itself, or a script shows that its site gives whole nodes or CPUs by GPUs."""
    sized = ("-c", "--cpus-per-task", "--cpu-bind", "--cpu_bind", "--exclusive", "--cpus-per-gpu")
    if any(stage.has(*sized) for each in job.steps if (stage := each.stage("step")) is not None):
        return True
    whole = re.search(
        r"^#SBATCH\s+(-C|--constraint)[= ]\W*gpu\b|^#.*\bcpus? per gpu", job.text, re.MULTILINE | re.IGNORECASE
    )
    return "cpus-per-task" not in job.header and (whole is not None or has_whole_nodes(job))


@rule(
    "workers-beyond-cpus",
    Severity.SLOW,
    "more data loaders than CPUs",
    why="Each rank starts its own data loaders. Where they are more than the CPUs of the job they take turns, and torch warns that this may freeze. Without --cpus-per-task a task has one CPU, unless the site gives more with a GPU.",
    instead="Ask for as many CPUs as there are ranks and loaders on a node, or start fewer loaders.",
    source="pytorch/pytorch torch/utils/data/dataloader.py (check_worker_number_rationality)",
    bad=_ONE + "#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\n" + TIME + "python train.py --num_workers 16\n",
    good=_ONE + "#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=16\n" + TIME + "python train.py --num_workers 16\n",
)
def find_many_loaders(job: BatchScript) -> Iterator[Hit]:
    """Yield the first number of data loaders that is above the CPUs of the header, over all ranks of a node."""
    cpus = None if _has_other_cpus(job) else cpus_of_node(job)
    is_told = {"cpus-per-task", "cpus-per-gpu"} & job.header.keys()
    beside = {id(launch): path for launch, path in scripts_beside(job)}
    for use in uses_of(job) if cpus and (is_told or job.asks_for_gpus) else ():
        ranks, path, script = (use.tasks or 1) * (use.ranks or 1), beside.get(id(use.launch)), use.launch.script
        told = [word for word in use.launch.command.words if _LOADERS.fullmatch(word.value.partition("=")[0])]
        numbers = list(_told_loaders(job, use.launch.command.words))
        if path is not None and script is not None and not told:
            text = re.sub(r"#.*", "", text_of_program(path)[1])
            numbers = [(script, int(number)) for number in _LOADERS_IN_PYTHON.findall(text)]
        for word, number in numbers if not _IN_DOCKER.search(text_of(use.launch.command)) else ():
            if cpus is not None and number * ranks > cpus:
                of_ranks = (
                    f"{ranks} ranks of a node start {number} loaders each"
                    if ranks > 1
                    else f"it starts {number} loaders"
                )
                name = "num_workers" if word is script else word.value.partition("=")[0]
                unknown = f"what {name} means to the program" if is_told else _CPUS_OF_SITE
                yield Hit(word.place, f"{of_ranks}, on {'one CPU' if cpus == 1 else f'{cpus} CPUs'}", unknown=unknown)
                return


def _told_loaders(job: BatchScript, words: tuple[Word, ...]) -> Iterator[tuple[Word, int]]:
    """Yield the numbers of data loaders in a program's own words."""
    for word, following in zip(words, [*words[1:], words[-1]]):
        name, equals, value = word.value.partition("=")
        number = number_of(job, value if equals else following.value) if _LOADERS.fullmatch(name) else None
        if number is not None and (equals or name.startswith("-")):
            yield word, number


_LOADERS = re.compile(
    r"(--?|\+\+?)?([\w-]+\.)*(num[-_]?workers|n[-_]?workers|workers|(dataloader|data|train)[-_](num[-_])?workers|num[-_](data|loader)[-_]workers)"
)
_LOADERS_IN_PYTHON = re.compile(
    r"(?:\bnum_workers\s*=\s*|add_argument\([^)]*[\"']--(?:num[-_])?workers[\"'][^)]*\bdefault\s*=\s*)([0-9]{1,4})\b"
)
_IN_DOCKER = re.compile(r"(^|\s)(nvidia-)?docker(-compose)? ")
"""What Docker starts has CPUs that are not the job's."""
