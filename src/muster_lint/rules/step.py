"""Rules on srun: what reaches the tasks, and how a step ends. Long: one rule after the other, each with its examples."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand, Word
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand, Stage, is_of_one_node, launches_of, starts_python
from muster_lint.rule import rule
from muster_lint.site import time_limit_of
from muster_lint.values import Edit, Hit, Severity, TextSpan
from muster_lint.works import AT_ONCE, SERVER, STARTS_RANKS, is_work, starts_ranks, text_of, trains

_TWO = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=01:00:00\n"
)
_WITH_CPUS = _TWO + "#SBATCH --cpus-per-task=8\nexport OMP_NUM_THREADS=8\n"
_OF_A_TASK = frozenset(
    {
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_TASK_PID",
        "PMI_RANK",
        "PMIX_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
    }
)
_RANK_NAMES = frozenset({"RANK", "LOCAL_RANK", "NODE_RANK", "GLOBAL_RANK", "PROC_ID"})


def _ranks(job: BatchScript) -> Iterator[tuple[LaunchCommand, Stage]]:
    """Yield the steps that start Python or an agent."""
    for launch in job.steps:
        stage = launch.stage("step")
        inside = launch.inner is not None and STARTS_RANKS.search(launch.inner.text)
        if stage is not None and (launch.stage("python") or launch.stage("agent") or inside):
            yield launch, stage


def _flag_behind(job: BatchScript, stage: Stage, flag: str) -> tuple[Edit, ...]:
    """Return the edit that writes a flag right behind srun; none where srun comes out of a variable."""
    place = stage.word.place
    if not re.search(r"(^|[\s/;&|({])srun$", job.lines[place.end_line - 1][: place.end_column - 1]):
        return ()
    return (Edit(TextSpan(place.end_line, place.end_column, place.end_line, place.end_column), f" {flag}"),)


@rule(
    "srun-cpus-per-task",
    Severity.STYLE,
    "not every srun takes --cpus-per-task from the job",
    why="""srun of Slurm 22.05 and 23.02 does not inherit --cpus-per-task from sbatch: each rank, with its data loaders, gets one
    CPU there. Since 23.11 it does. SRUN_CPUS_PER_TASK is read by those two versions alone.""",
    instead="Write srun --cpus-per-task=$SLURM_CPUS_PER_TASK, which each version reads.",
    source=f"{sources.SLURM_NEWS} (22.05); NEWS of 23.11.0rc1",
    bad=_WITH_CPUS + "srun --kill-on-bad-exit=1 python train.py\n",
    good=_WITH_CPUS + 'srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 python train.py\n',
)
def find_missing_cpus(job: BatchScript) -> Iterator[Hit]:
    """Yield steps of ranks without --cpus-per-task in a job that asks for it."""
    if "cpus-per-task" not in job.header or job.shell.assigned("SRUN_CPUS_PER_TASK"):
        return
    if job.header["cpus-per-task"].value == "1":
        return
    ranks = [stage for _, stage in _ranks(job)]
    for launch in job.steps:
        stage = launch.stage("step")
        if stage is None or _binds_itself(stage) or (stage not in ranks and not _goes_on(launch)):
            continue
        if not stage.has("--cpus-per-task", "-c", "--cpus-per-gpu", "--exact") and not _may_hide_flags(stage):
            edits = _flag_behind(job, stage, '--cpus-per-task="$SLURM_CPUS_PER_TASK"')
            yield Hit(stage.word.place, "on Slurm 22.05 and 23.02 this step gives each task one CPU", edits=edits)


def _goes_on(launch: LaunchCommand) -> bool:
    """Tell whether a step starts a script or a server, which wants its CPUs as ranks do."""
    last = launch.stages[-1]
    is_script = last.name.endswith((".sh", ".bash")) or (last.kind == "shell" and bool(last.words))
    texts = [word.value for word in last.words] + ([launch.inner.text] if launch.inner is not None else [])
    serves = SERVER.search(" ".join([last.name, *texts])) is not None
    return (is_script or serves) and not launch.command.in_substitution


def _binds_itself(stage: Stage) -> bool:
    """Tell whether the step names the CPUs of each task, or binds none: the tasks then have more than one."""
    value = stage.text("--cpu-bind", "--cpu_bind") or ""
    return any(word.startswith(("none", "no", "mask_cpu", "map_cpu")) for word in re.split(r"[,:=]", value))


def _may_hide_flags(stage: Stage) -> bool:
    """Tell whether the step's flags come out of a variable that is not known."""
    return bool(stage.hidden) or (bool(stage.words) and stage.words[0].may_be_several)


@rule(
    "srun-survivors",
    Severity.FRAGILE,
    "the other ranks stay when one dies",
    why="""When a rank ends with an error srun leaves the others alone, unless the cluster sets KillOnBadExit. Those that wait for it
    in a collective stay until a time-out ends them (torch's for NCCL is 10 minutes, for gloo 30), or until the time limit where there is none.""",
    instead="Write srun --kill-on-bad-exit=1.",
    source=sources.SRUN,
    bad=_TWO + "srun python train.py\n",
    good=_TWO + "srun --kill-on-bad-exit=1 python train.py\n",
)
def find_survivors(job: BatchScript) -> Iterator[Hit]:
    """Yield steps of several ranks without --kill-on-bad-exit."""
    limit = time_limit_of(job)
    if job.shell.assigned("SLURM_KILL_BAD_EXIT") or (limit is not None and 0 < limit <= _NCCL_TIMEOUT_S):
        return  # the limit ends the others no later than a time-out does
    meets = _MEETS.search(job.text) is not None or (job.asks_for_gpus and _MAY_MEET.search(job.text) is not None)
    is_sized = bool({"nodes", "ntasks"} & job.header.keys())
    for launch, stage in _ranks(job):
        if _has_one_task(stage) or _is_one_task(job, stage) or stage.text("--wait", "-W") not in {None, "0"}:
            continue
        if _is_apart(launch) or not (meets or _may_meet(launch)) or not (is_sized or stage.has(*_TASKS)):
            continue
        if not stage.has("--kill-on-bad-exit", "-K", "-K1") and not _may_hide_flags(stage):
            message = "nothing ends the other ranks when one of this step fails, unless the site sets KillOnBadExit"
            edits = _flag_behind(job, stage, "--kill-on-bad-exit=1")
            yield Hit(stage.word.place, message, edits=edits)


_NCCL_TIMEOUT_S = 600
_MEETS = re.compile(
    r"MASTER_(ADDR|PORT)|torchrun|torch\.distributed|deepspeed|accelerate launch|rdzv|NCCL_|(?<![a-z])ddp"
    r"|horovod|hvd|lightning|WORLD_SIZE|dist.?url",
    re.IGNORECASE,
)
_MAY_MEET = re.compile(r"distributed|multi.?(node|gpu)", re.IGNORECASE)
"""Words that mean a training of several ranks where the job has GPUs; without them several runs are as likely."""


def _is_apart(launch: LaunchCommand) -> bool:
    """Tell whether the tasks of a step are runs of their own: a line of Python, or each with its number as its work."""
    python = launch.stage("python")
    name = launch.script.value if launch.script is not None else (python.text("-m") or "") if python else ""
    agent = launch.stage("agent")
    if agent is not None and is_of_one_node(agent):
        return True
    if (python is not None and (python.has("-c") or python.text("-m") == "mpi4py")) or re.search(
        r"serv(e|er|ing)(?![a-z])", name
    ):
        return True
    text = " ".join(word.text for word in launch.command.words)
    takes_number = re.search(r"SLURM_(PROCID|LOCALID)", text)
    return takes_number is not None and not re.search(
        r"[_ -]rank|RANK=|MASTER_|torchrun|torch\.dist|accelerate|rdzv", text
    )


def _may_meet(launch: LaunchCommand) -> bool:
    """Tell whether the ranks of a step seem to be one program: an agent starts them, or one command line trains."""
    if launch.stage("agent"):
        return True
    own_text = " ".join(word.text for word in launch.command.words)
    is_split = re.search(r"SLURM_(PROCID|LOCALID|NODEID)|LOCAL_RANK", own_text)
    python = launch.stage("python")
    is_program = launch.script is not None or (python is not None and python.has("-m"))
    return not is_split and is_program and re.search(r"train|pretrain|finetune", own_text) is not None


"""The signs of ranks that wait for each other: tasks that do not may fail one by one."""

_SIZES = {"nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres"}
"""The options of a header that asks for a size itself, and does not leave it to sbatch's own line."""

_TASKS = ("--ntasks", "-n", "--ntasks-per-node", "--tasks-per-node", "--ntasks-per-gpu", "--nodes", "-N")


def _is_one_task(job: BatchScript, stage: Stage) -> bool:
    """Tell whether the job is one task on one node, and the step does not ask for more."""
    of_one_node = job.tasks_per_node == 1 or (job.tasks_per_node is None and "ntasks" not in job.header)
    is_on_one = stage.text("--nodes", "-N") == "1" and not stage.has(*_TASKS[:5])
    is_open = not _SIZES & job.header.keys() and re.search(r"hostnames? |SLURM_(JOB_NUM_NODES|NNODES)", job.body)
    is_told = "nodes" not in job.header and _TOLD_NODES.search(job.body)
    asked = {stage.text(name) for name in _TASKS if stage.has(name)}
    is_same = asked <= {"1", "$SLURM_NNODES", "$SLURM_JOB_NUM_NODES", "$SLURM_NTASKS"}
    return (job.has_one_task and not (is_open or is_told) and is_same) or (is_on_one and of_one_node)


_TOLD_NODES = re.compile(r"--(num_machines|nnodes|num_nodes)[= ]\W*SLURM_(JOB_NUM_NODES|NNODES)")
"""A launcher that is told of as many nodes as the job has: it may have several, whatever the header says."""


def _has_one_task(stage: Stage) -> bool:
    """Tell whether the step is one task alone."""
    return stage.text("--ntasks", "-n") == "1"


@rule(
    "task-variable-too-early",
    Severity.BREAKS,
    "a variable of the task, expanded on the batch host",
    why="""SLURM_PROCID, SLURM_LOCALID and SLURM_NODEID differ from task to task. In double quotes, or bare on srun's line, the batch
    script expands them once: every task gets 0.""",
    instead="Use single quotes: srun bash -c 'python train.py --rank $SLURM_PROCID'; or read the variable in the program.",
    source=sources.SRUN,
    bad=_TWO + 'srun --kill-on-bad-exit=1 bash -c "python train.py --rank $SLURM_PROCID"\n',
    good=_TWO + "srun --kill-on-bad-exit=1 bash -c 'python train.py --rank $SLURM_PROCID'\n",
)
def find_early_task_variables(job: BatchScript) -> Iterator[Hit]:
    """Yield words of a step, or of a variable that stands in one, in which the batch host expands one of the task."""
    told: set[TextSpan] = set()
    for launch in job.steps:
        stage = launch.stage("step")
        if launch.command.in_substitution or stage is None or _has_one_task(stage) or _is_one_task(job, stage):
            continue
        is_sure = (job.tasks_per_node or 0) > 1 or (job.nodes or 0) > 1 or "ntasks" in job.header
        for place, name in _early_names(job, launch):
            if place not in told:
                told.add(place)
                unknown = "" if is_sure else "whether the step has several tasks"
                message = f"${name} is expanded by the batch script, before srun starts"
                if _feeds_inert_ranks(launch):
                    message += ": every node is told 0, which the c10d rendezvous does not read"
                    yield Hit(place, message, unknown=unknown, severity=Severity.FRAGILE)
                else:
                    yield Hit(place, message, unknown=unknown)


def _early_names(job: BatchScript, launch: LaunchCommand) -> Iterator[tuple[TextSpan, str]]:
    """Yield the variables of the task that the batch host expands for this step, each with its place."""
    written = {name for each in job.shell.commands for name in each.writes}
    for word in launch.command.words:
        names = [name for name in word.names if name in _OF_A_TASK]
        if names and not _is_inert(launch, word) and word.text not in written:
            yield word.place_of(names[0]), names[0]
    agent = launch.stage("agent")
    if agent is not None and agent.text("--rdzv-backend", "--rdzv_backend") in {"c10d", "etcd", "etcd-v2"}:
        return
    held = {name for word in launch.command.words for name in word.names if name not in _RANK_NAMES}
    for each in job.shell.assignments:
        if each.name in held and each.order < launch.command.order and not each.of_command and each.value is not None:
            texts = each.elements if each.elements is not None else (each.value,)
            names = [name for text in texts for name in text.names if name in _OF_A_TASK]
            if names and not re.search(r"rdzv.backend[= ]\S*(c10d|etcd)", each.value.text):
                yield each.place, names[0]


def _is_inert(launch: LaunchCommand, word: Word) -> bool:
    """Tell whether a word is the node's rank of an agent that does not read it: under a c10d rendezvous."""
    agent = launch.stage("agent")
    if agent is None or agent.text("--rdzv-backend", "--rdzv_backend") not in {"c10d", "etcd", "etcd-v2"}:
        return False
    return any(agent.option(name) == word for name in ("--node-rank", "--node_rank", "--machine_rank"))


def _feeds_inert_ranks(launch: LaunchCommand) -> bool:
    """Tell whether the task's shell uses each early variable only as the node's rank beside a c10d rendezvous."""
    early = [name for word in launch.early for name in word.names if name in _OF_A_TASK]
    read = [
        name
        for each in (launches_of(launch.inner) if launch.inner is not None else ())
        for word in each.command.words
        for name in word.names
        if name in _OF_A_TASK and _is_inert(each, word)
    ]
    return bool(early) and len(early) == len(read)


@rule(
    "rank-exported-by-script",
    Severity.BREAKS,
    "a rank set in the batch script",
    why="The batch script runs once. What it sets from SLURM_PROCID or SLURM_LOCALID is 0 for all tasks.",
    instead="Set it in the task (srun bash -c 'export RANK=$SLURM_PROCID; …') or read SLURM_PROCID in the program.",
    source=sources.SRUN,
    bad=_TWO
    + "export RANK=$SLURM_PROCID\nexport LOCAL_RANK=$SLURM_LOCALID\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_TWO
    + "srun --kill-on-bad-exit=1 bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID; python train.py'\n",
)
def find_exported_ranks(job: BatchScript) -> Iterator[Hit]:
    """Yield assignments from a variable of the task, outside the tasks."""
    ranks = [launch for launch, stage in _ranks(job) if not (_has_one_task(stage) or _is_one_task(job, stage))]
    if not ranks:
        return
    agents = [stage for launch in job.all_launches if (stage := launch.stage("agent")) is not None]
    own = {assignment.name for task in job.tasks for assignment in task.shell.assignments}
    for each in job.shell.assignments:
        if each.value is None or each.of_command or each.name in own:
            continue
        names = [name for name in each.value.names if name in _OF_A_TASK]
        is_literal = each.name in {"RANK", "LOCAL_RANK"} and each.value.value.isdigit()
        if not (names and not _has_fallback(each.value.text)) and not is_literal:
            continue
        if agents:
            if not any(_takes_rank_from(stage, each.name) for stage in agents):
                continue  # torchrun gives its ranks their numbers itself
        elif not each.exported or each.name not in _RANK_NAMES:
            continue
        message = (
            f"the batch script has one ${names[0]} for all tasks"
            if names
            else f"every task gets {each.name}={each.value.value}"
        )
        yield Hit(each.place, message, unknown="" if agents else f"whether the program reads {each.name}")


def _takes_rank_from(stage: Stage, name: str) -> bool:
    """Tell whether an agent with a static meeting point takes its node's number from this variable."""
    if stage.text("--rdzv-backend", "--rdzv_backend") in {"c10d", "etcd", "etcd-v2"}:
        return False
    word = stage.option("--node-rank", "--node_rank", "--machine_rank")
    return word is not None and name in word.names


def _has_fallback(text: str) -> bool:
    return ":-" in text


@rule(
    "not-exported",
    Severity.FRAGILE,
    "a variable of the ranks that is set, but not exported",
    why="A program gets only the variables that are exported, and so do the tasks that srun starts.",
    instead="Write export before it.",
    source=sources.BASH,
    bad=_TWO
    + "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 9999))\nMASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=_TWO
    + "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 9999))\nexport MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_unexported_in_script(job: BatchScript) -> Iterator[Hit]:
    """Yield variables that only a program would read, set without export and used nowhere in the script."""
    if not job.directives or job.sets("a", "allexport"):
        return
    kinds = ("python", "agent", "step", "container", "mpi")
    starters = [each for each in job.launches if any(each.stage(kind) for kind in kinds)]
    by_slurm = {"CUDA_VISIBLE_DEVICES"} if job.asks_for_gpus else set()  # set already, and exported
    has_agent = re.search(r"torchrun|torch\.distributed\.|\baccelerate\b|\bdeepspeed\b|\bcomposer\b", job.body)
    for each in job.shell.assignments:
        if each.exported or each.of_command or not _is_for_programs(each.name) or each.name in by_slurm:
            continue
        if each.value is not None and not each.value.value:
            continue  # an exported one is emptied, another one reaches nobody
        if each.name in {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} and has_agent:
            continue  # an agent gives its ranks these itself
        is_used = re.search(rf"\$\{{?{each.name}\b|export\s+(\w+\s+)*{each.name}\b", _without_messages(job))
        if not is_used and any(launch.command.order > each.order for launch in starters):
            yield Hit(each.place, f"{each.name} does not reach the program", unknown="whether it is exported already")
    outside = {each.name for each in job.shell.assignments if each.exported}
    for launch in job.launches:
        inner = launch.inner
        last = max((each.order for each in inner.commands), default=0) if inner is not None else 0
        for each in inner.assignments if inner is not None and "set -a" not in inner.text else ():
            is_own = not each.exported and not each.of_command and _is_for_programs(each.name) and each.order < last
            if (
                is_own
                and each.name not in outside
                and not re.search(rf"\$\{{?{each.name}\b|export {each.name}", job.text)
            ):
                message = f"{each.name} does not reach the program that this shell starts"
                yield Hit(each.place, message, unknown="whether it is exported already")


def _without_messages(job: BatchScript) -> str:
    """Return the text without the lines that only print: a variable in a message reaches no program."""
    return "\n".join(line for line in job.lines if not re.match(r"\s*(echo|printf)\b[^|>;&`(]*$", line))


def _is_for_programs(name: str) -> bool:
    return re.match(_FOR_PROGRAMS, name) is not None


_FOR_PROGRAMS = (
    r"(MASTER_ADDR|MASTER_PORT|WORLD_SIZE|CUDA_VISIBLE_DEVICES|PYTHONUNBUFFERED|TRANSFORMERS_\w+|TOKENIZERS_PARALLELISM"
    r"|(OMP|MKL|OPENBLAS|NUMEXPR)_NUM_THREADS|(OMP|KMP|NCCL|TORCH|PYTORCH|FI|UCX|HF|OMPI_MCA|XLA|MIOPEN)_\w+"
    r"|WANDB_(API_KEY|BASE_URL|CACHE_DIR|CONSOLE|DIR|DISABLED|ENTITY|JOB_TYPE|LOG_MODEL|MODE|NAME|NOTES|PROJECT|RESUME"
    r"|RUN_GROUP|RUN_ID|SILENT|START_METHOD|TAGS|WATCH)|(KERAS|DGL|MPL)_?BACKEND|(HIP|ROCR)_VISIBLE_DEVICES|MUJOCO_GL"
    r"|TF_(CPP_\w+|FORCE_GPU_ALLOW_GROWTH|GPU_\w+|ENABLE_\w+|DETERMINISTIC_OPS|XLA_FLAGS|NUM_INT\w+|USE_LEGACY_KERAS)"
    r"|CUDA_(LAUNCH_BLOCKING|DEVICE_ORDER|DEVICE_MAX_CONNECTIONS|MODULE_LOADING|CACHE_(PATH|DISABLE|MAXSIZE))"
    r"|PYTHON(PATH|WARNINGS|HASHSEED|NOUSERSITE|FAULTHANDLER|DONTWRITEBYTECODE|IOENCODING|UTF8)|HYDRA_FULL_ERROR"
    r"|(JAX|VLLM|NUMBA|TORCHINDUCTOR|MPICH|I_MPI|HSA)_\w+|PYOPENGL_PLATFORM|TRITON_CACHE_DIR|NVIDIA_TF32_OVERRIDE"
    r"|(SINGULARITY|APPTAINER)(ENV_\w+|_(BIND|BINDPATH|CACHEDIR|HOME|NV|ROCM|TMPDIR)))$"
)
"""Variables that programs read, and scripts have no use for."""


@rule(
    "background-without-wait",
    Severity.BREAKS,
    "a program in the background, and no wait",
    why="The script ends while the program runs, and Slurm ends the job, and the program with it.",
    instead="End the script with wait.",
    source=sources.BASH,
    bad=_TWO + "srun --kill-on-bad-exit=1 python train.py &\n",
    good=_TWO + "srun --kill-on-bad-exit=1 python train.py &\nwait $!\n",
)
def find_missing_wait(job: BatchScript) -> Iterator[Hit]:
    """Yield programs in the background after which nothing waits, where the script ends at once."""
    if not job.directives:
        return  # without a job nothing ends it
    waits = max((each.order for each in job.shell.commands if each.program in _WAITS), default=0)
    waits = max(waits, *(order for order in _asking_sleeps(job)), 0)
    beside = max((each.order for each in job.shell.commands if _takes_time(each)), default=0)
    told: set[int] = set()
    starters = {name for name, body in job.functions.items() if STARTS_RANKS.search(" ".join(map(text_of, body)))}
    for each in job.shell.commands:
        if not each.in_background:
            continue
        elsewhere = each.program in {"ssh", "pdsh"} and starts_ranks(job, each)
        is_late = max(waits, beside) <= each.order and each.function is None and not each.in_substitution
        if (elsewhere or each.program in starters) and is_late:
            told.add(each.place.line)
            yield Hit(each.place, f"the script does not wait for this {each.program}: the job ends, and ends it")
            return
    for each in job.shell.commands:
        body = job.functions.get(each.program, ())
        leaves = any(inner.in_background and STARTS_RANKS.search(text_of(inner)) for inner in body)
        ends = any(inner.program in _WAITS for inner in body)
        if leaves and not ends and max(waits, beside) <= each.order and each.function is None:
            message = f"the script does not wait for what {each.program} starts: the job ends, and ends it"
            yield Hit(each.place, message, unknown="" if not each.is_conditional else "whether this branch runs")
            return
    yield from _overtaken(job)
    for launch in job.launches:
        command = launch.command
        starts_work = launch.stage("step") or launch.stage("mpi") or launch.stage("python") or launch.stage("agent")
        name = launch.stages[-1].name if launch.stages else ""
        is_script = name.endswith(".sh") or (launch.stages[0].kind == "shell" if launch.stages else False)
        if not (starts_work or is_script) or not command.in_background or command.in_substitution:
            continue
        if command.function is not None or max(waits, beside) > command.order or command.place.line in told:
            continue
        told.add(command.place.line)
        goes_on = " its loop goes on, and" if command.in_loop else ""
        started = " ".join(word.value for word in command.words if not word.value.startswith("-"))
        message = f"the script does not wait for {name}:{goes_on} the job ends, and ends it".replace(":  ", ": ")
        unknown = f"whether {name} is to end with the job" if _SERVES.search(started) else ""
        yield Hit(command.place, message, unknown=unknown)


def _asking_sleeps(job: BatchScript) -> Iterator[int]:
    """Yield the places of sleeps in a while or until that starts nothing: the script stays there until its answer."""
    lines: set[int] = set()
    for loop in job.shell.loops:
        text = "\n".join(job.lines[loop.place.line - 1 : loop.place.end_line])
        if re.search(r"\bsleep\b", text) and not re.search(r"(?<![&>|])&\s*(\n|$|done)", text):
            lines |= {*range(loop.place.line, loop.place.end_line + 1)}
    yield from (
        each.order for each in job.shell.commands if lines and each.program == "sleep" and each.place.line in lines
    )


def _overtaken(job: BatchScript) -> Iterator[Hit]:
    """Yield the first work in the background that no wait follows, where the script ends with work in front."""
    if any(each.program in _WAITS or each.program == "trap" for each in job.shell.commands):
        return
    main = [each for each in job.launches if each.command.function is None and not each.command.in_substitution]
    works = [each for each in main if is_work(job, each) and not each.command.is_conditional]
    last = works[-1] if works else None
    if last is None or last.command.in_background or last.command.in_loop:
        return
    for each in works:
        text = text_of(each.command)
        is_ranks = trains(each) or each.stage("step") is not None or each.stage("mpi") is not None
        is_like = is_ranks and each.command.in_background and not each.command.in_loop and not _SERVES.search(text)
        is_same = each.stages[-1].name == last.stages[-1].name
        if is_like and is_same and each.command.order < last.command.order:
            first_words = f"the {last.stages[0].name} in line {last.command.place.line}"
            message = f"nothing waits for this {each.stages[0].name}: if {first_words} ends first the job ends it"
            yield Hit(each.command.place, message, unknown="which of them ends first")
            return


_SERVES = re.compile(
    r"serv(?!ice)|daemon|monitor|head|worker|redis|dask|jupyter|tensorboard|\bray\b|smi|watch", re.IGNORECASE
)


_WAITS = frozenset({"wait", "fg", "tail", "parallel", "wait_all"})


def _takes_time(command: SimpleCommand) -> bool:
    """Tell whether the script stays at a command of the foreground: a step in the background runs beside it."""
    if command.program == "sleep":
        return any(
            word.value.endswith(("d", "h")) or word.value == "infinity" or _is_long(word) for word in command.words[1:]
        )
    words = [word for word in command.words if command.program == "time" and not word.value.startswith("-")]
    program = words[1].program if len(words) > 1 else command.program
    return not command.in_background and not command.in_substitution and program not in AT_ONCE


def _is_long(word: Word) -> bool:
    return not word.is_literal or (word.value.rstrip("sm").isdigit() and int(word.value.rstrip("sm")) >= 600)


@rule(
    "hostname-too-early",
    Severity.FRAGILE,
    "the batch host's name where each task's is meant",
    why="$(hostname) in double quotes, or bare on srun's line, is run once on the batch host.",
    instead="Use single quotes, so that each task runs it.",
    source=sources.SRUN,
    bad=_TWO + 'srun --kill-on-bad-exit=1 bash -c "python train.py --node $(hostname)"\n',
    good=_TWO + "srun --kill-on-bad-exit=1 bash -c 'python train.py --node $(hostname)'\n",
)
def find_early_hostname(job: BatchScript) -> Iterator[Hit]:
    """Yield steps whose words hold the batch host's name, except as the meeting point."""
    for launch in job.steps:
        stage = launch.stage("step")
        if stage is None or _has_one_task(stage) or _is_one_task(job, stage):
            continue  # the one task runs on the batch host
        hosts = stage.option("-w", "--nodelist", "-x", "--exclude")
        for word in launch.command.words:
            early = (
                [] if word == hosts else [each for each in word.substitutions if re.match(r"[$`(]+\s*hostname\b", each)]
            )
            if early and not re.search(
                r"tcp://|dist|init|rdzv|master|main_process_ip|coordinator|endpoint|ADDR", word.text, re.IGNORECASE
            ):
                yield Hit(word.place, f"{early[0]} is the batch host for every task")


@rule(
    "python-on-first-node",
    Severity.SLOW,
    "several nodes, but the script runs on the first alone",
    why="A command without srun or mpirun runs on the batch host only; the other nodes idle.",
    instead="Start it with srun.",
    source=sources.SBATCH,
    bad=_TWO + "python train.py\n",
    good=_TWO + "srun --kill-on-bad-exit=1 python train.py\n",
)
def find_lone_python(job: BatchScript) -> Iterator[Hit]:
    """Yield Python programs without a launcher in a job of several nodes that starts nothing over its nodes."""
    if job.nodes is None or job.nodes < 2 or any(each.stage("step") or each.stage("mpi") for each in job.launches):
        return
    if re.search(r"\bssh\b|\bpdsh\b|\bray\b|\bclush\b", job.text):
        return
    if any(launch.unknown or launch.command.in_loop for launch in job.launches) or job.steps:
        return
    for launch in job.launches:
        if (
            trains(launch)
            and not launch.stage("agent")
            and launch.script is not None
            and not re.search(r"launch|submit|prep|download|convert|deepy", launch.script.value)
            and not launch.command.in_substitution
            and not launch.command.function
            and not _starts_steps(launch)
        ):
            yield Hit(
                launch.command.place,
                f"{launch.script.value} runs on one of {job.nodes} nodes",
                unknown="whether the program starts something on the others itself",
            )
            return


def _starts_steps(launch: LaunchCommand) -> bool:
    """Tell whether the program is told to start steps itself: launcher=slurm, --run-command srun."""
    return any(
        re.search(r"(^|[=\s])(srun|aprun|mpirun|slurm)$", word.value, re.IGNORECASE) for word in launch.command.words
    )


@rule(
    "ssh-to-nodes",
    Severity.FRAGILE,
    "ssh to the nodes of the job",
    why="""Processes that ssh starts are not Slurm's: they may outlive the job, see other GPUs, and their accounting is lost. Many
    sites forbid it.""",
    instead="Use srun.",
    source=sources.SRUN,
    bad=_TWO
    + "for node in $(scontrol show hostnames $SLURM_JOB_NODELIST); do ssh $node python train.py & done\nwait\n",
    good=_TWO + "srun --kill-on-bad-exit=1 python train.py\n",
)
def find_ssh(job: BatchScript) -> Iterator[Hit]:
    """Yield ssh commands that start Python or a launcher, or a program on a node of the job."""
    for each in job.commands:
        if each.program in {"ssh", "pdsh", "clush"} and (starts_ranks(job, each) or _starts_on_node(job, each)):
            yield Hit(each.place, f"{each.program} starts processes that Slurm does not know")


def _starts_on_node(job: BatchScript, command: SimpleCommand) -> bool:
    """Tell whether ssh starts a program, of a folder or in the background, on a host out of Slurm's list of nodes."""
    if command.program != "ssh" or not re.search(r"scontrol show hostname|NODELIST", job.body):
        return False
    words = [word.value for word in command.words]
    host = next((index for index, word in enumerate(words) if _HOST.search(word)), len(words))
    return re.search(r"(^|[;&]|\s)(\./|/|~/)\S*/?[\w.-]+\s|&\s*$", " ".join(words[host + 1 :])) is not None


_HOST = re.compile(r"\$\{?\w*(node|host|worker)", re.IGNORECASE)


@rule(
    "gpu-bind-hides",
    Severity.FRAGILE,
    "a GPU binding that shows each task one GPU",
    why="""With --gpu-bind=single, per_task or map_gpu each task sees its own GPU alone: cuda:LOCAL_RANK does not exist for the
    second rank, and NCCL loses direct access between GPUs.""",
    instead="Remove it; the program chooses its GPU by its local rank.",
    source=sources.SRUN,
    bad=_TWO + "srun --gpu-bind=single:1 --kill-on-bad-exit=1 python train.py\n",
    good=_TWO + "srun --kill-on-bad-exit=1 python train.py\n",
)
def find_gpu_bind(job: BatchScript) -> Iterator[Hit]:
    """Yield --gpu-bind other than none."""
    in_all = job.header.get("gpus")
    if 1 in {job.tasks_per_node, job.gpus_per_node} or (in_all is not None and in_all.value == "1"):
        return  # nothing to hide
    directive = job.header.get("gpu-bind")
    if directive is not None and directive.value and _hides(directive.value) and starts_python(job.steps):
        yield Hit(directive.place, f"--gpu-bind={directive.value} shows each task its own GPUs alone", unknown=_DEVICE)
    for launch in job.steps if starts_python(job.steps) else ():
        stage = launch.stage("step")
        value = stage.text("--gpu-bind") if stage else None
        if stage is not None and value and _hides(value):
            word = stage.option("--gpu-bind")
            place = word.place if word else stage.word.place
            yield Hit(place, f"--gpu-bind={value} shows each task its own GPUs alone", unknown=_DEVICE)


_DEVICE = "how the program chooses its device"


def _hides(value: str) -> bool:
    # closest is the recipe of sites with AMD GPUs, whose libraries reach the others all the same.
    return not value.removeprefix("verbose,").removeprefix("v,").startswith(("none", "closest"))
