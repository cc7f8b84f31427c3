"""Rules on the programs of a job, whatever starts them: what runs beside what, and what each of them has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.gpus import signs_of_gpus, zero_of
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand
from muster_lint.rule import rule
from muster_lint.rules.names import reads_settings
from muster_lint.sizes import has_whole_nodes, tasks_of, uses_of
from muster_lint.values import Hit, Severity
from muster_lint.works import MODEL_SERVER, copies, text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\n#SBATCH --time=01:00:00\n"
_TWO = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=01:00:00\n"
)


@rule(
    "step-without-command",
    Severity.BREAKS,
    "srun without a command",
    why="srun stops: no command given to execute. Most often a backslash is missing at the end of the line.",
    instead="End the line with a backslash, so that the next line belongs to it.",
    source=sources.SRUN,
    bad=_TWO + "srun --kill-on-bad-exit=1\npython train.py\n",
    good=_TWO + "srun --kill-on-bad-exit=1 \\\n    python train.py\n",
)
def find_empty_steps(job: BatchScript) -> Iterator[Hit]:
    """Yield srun with options alone."""
    for launch in job.launches if job.directives or (job.lines[:1] and job.lines[0].startswith("#!")) else ():
        last = launch.stages[-1] if launch.stages else None
        first = last.words[0] if last is not None and last.kind == "shell" and last.words else None
        if first is not None and first.text in {"$1", "${1}"} and "$#" not in job.text and launch.stage("step"):
            message = "without an argument this shell reads the standard input, and ends well"
            yield Hit(first.place, message, 'Write "${1:?which script}".', unknown="what sbatch was given")
        if last is None or last.kind != "step" or last.words or last.hidden or launch.command.reads:
            continue
        if last.has("--help", "--version", "-V", "--multi-prog", "--test-only", "--attach", "-h"):
            continue
        following = job.lines[launch.command.place.end_line : launch.command.place.end_line + 1]
        if following and following[0].lstrip().startswith("#"):
            continue  # continuation-comment says it
        if not any(word.may_be_several for word in launch.command.words):
            yield Hit(launch.command.place, f"this {last.name} has options, but no command to start")


@rule(
    "programs-share-gpu",
    Severity.SLOW,
    "more programs at a time than GPUs",
    why="Programs that run beside each other on one GPU share its memory and its time: each is slower, or one runs out of memory.",
    instead="Give each program a GPU of its own, or run them one after the other; an array (--array) does that.",
    source=sources.TORCH_CUDA,
    bad=_HEAD + "set -e\npython train.py --seed 1 &\npython train.py --seed 2 &\npython train.py --seed 3 &\nwait $!\n",
    good=_HEAD.replace("gpu:1", "gpu:3")
    + "set -e\nCUDA_VISIBLE_DEVICES=0 python train.py --seed 1 &\nCUDA_VISIBLE_DEVICES=1 python train.py --seed 2 &\nCUDA_VISIBLE_DEVICES=2 python train.py --seed 3 &\nwait $!\n",
)
def find_shared_gpus(job: BatchScript) -> Iterator[Hit]:
    """Yield the first of several Python programs that run beside each other on fewer GPUs."""
    gpus = job.gpus_per_node
    if not gpus or (job.nodes or 1) > 1:
        return
    waits = [each.order for each in job.shell.commands if each.program == "wait"]
    beside: list[LaunchCommand] = []
    works = [use.launch for use in uses_of(job) if use.step is None]
    for launch in works:
        command = launch.command
        if not command.in_background or command.in_loop or command.is_conditional:
            continue
        if beside and any(beside[0].command.order < wait < command.order for wait in waits):
            beside = []
        beside.append(launch)
        if len(beside) > max(gpus, 2):
            count = sum(each.command.in_background for each in works)
            yield Hit(
                beside[0].command.place, f"{count} programs run beside each other on {gpus} GPU{'s' * (gpus > 1)}"
            )
            return


@rule(
    "gpus-not-asked-for",
    Severity.STYLE,
    "GPU software, but no GPU asked for",
    why="Where GPUs are counted (GRES) a job that asks for none sees none: torch falls back to the CPU, or stops.",
    instead="Add --gres=gpu:1, or the number that the program uses.",
    source=sources.SBATCH,
    bad="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nset -e\npython train.py --gpus 1\n",
    good="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=8\npython train.py --gpus 1\n",
)
def find_unasked_gpus(job: BatchScript) -> Iterator[Hit]:
    """Yield a GPU that the script chooses, or tells its program to use, in a job whose header asks for none."""
    other = {"tres-per-task", "tres-per-node", "batch", "constraint"}
    none = zero_of(job)
    is_asked = job.asks_for_gpus or other & job.header.keys() or ("gres" in job.header and none is None)
    is_told = re.search(r"sbatch\b.*(--gres|--gpus|-G\s)", job.text) is not None
    if not job.directives or is_asked or is_told or has_whole_nodes(job) or _ELSEWHERE.search(job.body):
        return
    sign = next(signs_of_gpus(job), None)
    if sign is None or any(_asks_itself(each) for each in job.launches):
        return
    taken = _taken_cards(job)
    if none is not None:
        message = f"--{none.name}={none.value} asks for no GPU{taken}"
        yield Hit(none.place, message, unknown="whether the program needs one")
    else:
        unknown = "whether the partition gives whole nodes, or sbatch was given more"
        yield Hit(sign[0], f"{sign[1]} is for GPUs, but the header asks for none{taken}", unknown=unknown)


def _taken_cards(job: BatchScript) -> str:
    """Return what to say of a job that names its cards itself; nothing for another."""
    for each in job.assignments:
        value = each.value.value if each.name == "CUDA_VISIBLE_DEVICES" and each.value is not None else ""
        if re.fullmatch(r"[0-9]+(,[0-9]+)*,?", value):
            return f"; CUDA_VISIBLE_DEVICES={value} (line {each.place.line}) may take the cards of other jobs"
    return ""


def _asks_itself(launch: LaunchCommand) -> bool:
    """Tell whether a step, or a job that the script submits, asks for GPUs, or may do so."""
    step = launch.stage("step")
    options = ("--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task", "--tres-per-task", "--gpus-per-socket")
    submits = launch.command.program in {"sbatch", "salloc"}
    return (step is not None and (step.has(*options) or bool(step.hidden))) or submits


_ELSEWHERE = re.compile(
    r"(device|accelerator|backend|platforms?(?:_name)?)[=\s]+[\"']?(cpu|gloo)\b|no[-_]cuda|use[-_]cpu|CUDA_VISIBLE_DEVICES=([\"']{2}|-1|\s|$)"
    r"|^\s*\w+=[\"']?(srun|sbatch|salloc)\b[^\n]*(--gres|--gpus|-G\s*\d)",
    re.IGNORECASE | re.MULTILINE,
)
"""Signs that the program is to use no GPU, or that another line asks for one."""


@rule(
    "meeting-variable-unset",
    Severity.FRAGILE,
    "a variable of the meeting that nothing sets",
    why="""Slurm sets no MASTER_ADDR, RANK or WORLD_SIZE: these are set by torchrun inside its ranks, or by other clusters
    (Kubernetes). Here the shell puts nothing in their place.""",
    instead='Set it first: export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1).',
    source=sources.TORCH_C10D,
    bad=_TWO.replace("ntasks-per-node=4", "ntasks-per-node=1")
    + 'srun --kill-on-bad-exit=1 torchrun --nnodes="$WORLD_SIZE" --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint="$MASTER_ADDR:29500" train.py\n',
    good=_TWO.replace("ntasks-per-node=4", "ntasks-per-node=1")
    + 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nport=$((20000 + SLURM_JOB_ID % 9999))\nsrun --kill-on-bad-exit=1 torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=4 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$head:$port" train.py\n',
)
def find_unset_meeting(job: BatchScript) -> Iterator[Hit]:
    """Yield the first use of each such variable in a command that starts ranks."""
    if not job.directives or reads_settings(job):
        return
    known = {each.name for each in job.assignments}
    told: set[str] = set()
    for launch in job.all_launches:
        if not (launch.stage("agent") or launch.stage("python")):
            continue
        held = [word for stage in launch.stages for _, word in stage.options if word is not None and word.from_variable]
        for word in [*launch.command.words, *held]:
            for name in word.names:
                has_default = re.search(rf"\$\{{{name}:?[-=?+]", word.text)
                if name in _OF_THE_MEETING and name not in known | told and not has_default and word.quoted != "'":
                    told.add(name)
                    yield Hit(
                        word.place, f"nothing sets {name} in this script", unknown="what the submitting shell exports"
                    )


_OF_THE_MEETING = frozenset(
    """
    MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK NODE_RANK NNODES NUM_NODES NPROC_PER_NODE GPUS_PER_NODE
    VC_WORKER_HOSTS MLP_WORKER_0_HOST PET_NNODES PET_NODE_RANK
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)


@rule(
    "option-twice",
    Severity.FRAGILE,
    "an option that is given twice, with two values",
    why="argparse and its like take the last one: what the first one says has no effect.",
    instead="Keep the one that is meant.",
    source="python/cpython Doc/library/argparse.rst (the action store keeps the last value)",
    bad=_HEAD + "set -e\npython train.py --epochs 90 --lr 0.1 --epochs 10\n",
    good=_HEAD + "set -e\npython train.py --epochs 90 --lr 0.1\n",
)
def find_options_given_twice(job: BatchScript) -> Iterator[Hit]:
    """Yield an option of a Python program that stands twice with two numbers, or with yes and no."""
    for launch in job.all_launches:
        stage = launch.stage("python") or launch.stage("agent")
        words = [*stage.words, None] if stage is not None else [None]
        given: dict[str, str] = {}
        for word, following in zip(words, words[1:]):
            option, sign, value = word.value.partition("=") if word is not None else ("", "", "")
            value = value if sign else following.value if following is not None else ""
            if not re.fullmatch(r"--[a-z][\w-]+", option) or not _ONE_VALUE.fullmatch(value) or word is None:
                continue
            times = sum(each is not None and each.value.partition("=")[0] == option for each in words)
            if given.setdefault(option, value) != value and times == 2:
                message = f"{option} is {given[option]} before, and {value} here: most programs take the last"
                yield Hit(word.place, message, unknown="whether the program takes several")
            given[option] = value


_ONE_VALUE = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?|true|false|yes|no|none", re.IGNORECASE)


@rule(
    "notebook-open",
    Severity.FRAGILE,
    "a notebook that everybody in the cluster can use",
    why="Without a token everybody who reaches the node's port runs commands in your name.",
    instead="Leave the token on, and bind to the node's own name.",
    source="jupyter/jupyter_server docs/source/operators/public-server.rst",
    bad=_HEAD + "jupyter lab --no-browser --ip=0.0.0.0 --port=8888 --NotebookApp.token=''\n",
    good=_HEAD + "jupyter lab --no-browser --ip=$(hostname) --port=$((20000 + SLURM_JOB_ID % 9999))\n",
)
def find_open_notebooks(job: BatchScript) -> Iterator[Hit]:
    """Yield jupyter without a token or a password."""
    for each in job.commands:
        text = " ".join(word.text for word in each.words)
        if re.search(r"\bjupyter\b", text) and re.search(r"App\.(token|password)=(''|\"\"|$|\s)", text):
            yield Hit(each.place, "jupyter asks for no token")
            return


@rule(
    "server-open",
    Severity.FRAGILE,
    "a server of models that everybody in the cluster can use",
    why="Everybody who reaches the node's port can use the model, and some servers load what they are told.",
    instead="Bind to localhost (--host 127.0.0.1), or give a key (--api-key).",
    source="vllm-project/vllm docs, OpenAI-Compatible Server (--host, --api-key)",
    bad=_HEAD + "vllm serve model --host 0.0.0.0 --port $((20000 + SLURM_JOB_ID % 9999))\n",
    good=_HEAD + "vllm serve model --host 127.0.0.1 --port $((20000 + SLURM_JOB_ID % 9999))\n",
)
def find_open_servers(job: BatchScript) -> Iterator[Hit]:
    """Yield a server that listens on all addresses, and asks for no key."""
    for each in job.commands:
        text = text_of(each)
        serves = MODEL_SERVER.search(text) or re.search(r"fastchat|vllm_worker|text-generation-launcher|gradio", text)
        if (
            serves
            and re.search(r"--host[= ]\W?0\.0\.0\.0", text)
            and not re.search(r"api.?key|token", job.text, re.IGNORECASE)
        ):
            yield Hit(each.place, "it listens on all addresses of the node, and asks for no key")


@rule(
    "kill-by-name",
    Severity.FRAGILE,
    "processes ended by their name",
    why="On a node that other jobs share, pkill and killall end the processes of your other jobs too.",
    instead="Keep the number and end that: program & pid=$!; …; kill $pid.",
    source="pkill(1): it ends all processes that fit",
    bad=_HEAD + "set -e\npython train.py & \npkill -9 python\nwait $!\n",
    good=_HEAD + "set -e\npython train.py &\npid=$!\nkill $pid\nwait $pid\n",
)
def find_kills_by_name(job: BatchScript) -> Iterator[Hit]:
    """Yield the first pkill, killall or ray stop, which ends a program that other jobs of the user may run."""
    if not job.directives or has_whole_nodes(job):
        return
    for each in job.shell.commands:
        text = text_of(each)
        by_name = each.program in {"pkill", "killall"} and re.search(r"python|\bray\b|torchrun|-u\b|vllm|ollama", text)
        stops_ray = text.startswith("ray stop") and not each.in_substitution
        is_searched = re.search(r"\bps\b.*\bgrep\b.*\bxargs\b", job.lines[each.place.line - 1])
        if by_name or stops_ray or (each.program == "xargs" and re.search(r"\bkill\b", text) and is_searched):
            yield Hit(
                each.place, f"{text} ends what other jobs of yours run on this node", unknown="whether it is shared"
            )
            return
        found = _LOOKED_FOR.search(text) if each.program in {"kill", "xargs", "fuser"} else None
        if found:
            message = (
                f"this kill takes what {found[0].split('|')[0].strip()} shows, and other jobs of yours may be there"
            )
            yield Hit(each.place, message, unknown="whether the node is shared")
            return


_LOOKED_FOR = re.compile(r"\b(ps (aux|-ef|-A|x)|pgrep|pidof|lsof|fuser(?=.*/tcp))\b[^)`]*")
"""What finds processes whoever started them."""


@rule(
    "same-work-in-every-task",
    Severity.FRAGILE,
    "the same command in every task",
    why="""srun starts the command once for each task. A plain Python program that does not ask which task it is computes the same in each, and all
    of them write the same files.""",
    instead="Ask for one task and as many CPUs: --ntasks=1 --cpus-per-task=N; or give each task its part by SLURM_PROCID.",
    source=sources.SRUN,
    bad="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=8\n#SBATCH --time=01:00:00\nsrun python solve.py\n",
    good="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=8\n#SBATCH --time=01:00:00\n"
    'srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python solve.py\n',
)
def find_repeated_work(job: BatchScript) -> Iterator[Hit]:
    """Yield steps of several tasks of a plain Python program, in a job without GPUs, MPI or another sign of ranks."""
    for launch in job.steps if job.directives else ():
        step = launch.stage("step")
        tasks = tasks_of(job, step) if step is not None and copies(launch) else None
        if step is not None and tasks is not None and tasks > 1:
            message = f"{tasks} tasks of each node write the same files at once"
            yield Hit(step.word.place, message, "Start it once on each node: srun --ntasks-per-node=1.")
            return
    if not job.directives or job.asks_for_gpus or _OF_RANKS.search(job.body):
        return
    for launch in job.steps:
        step, python = launch.stage("step"), launch.stage("python")
        text = (step.text("-n", "--ntasks") if step is not None else None) or ""
        own = job.tasks_per_node * (job.nodes or 1) if job.tasks_per_node is not None else 1
        count = int(text) if text.isdigit() else own if not text else 1
        if step is None or python is None or launch.script is None or launch.unknown or launch.command.in_substitution:
            continue
        asks = re.search(r"SLURM_(PROCID|LOCALID|NODEID)", " ".join(word.text for word in launch.command.words))
        if count > 1 and not asks and not step.has("--mpi", "--ntasks-per-node", "--multi-prog"):
            unknown = "whether the program asks which task it is"
            yield Hit(step.word.place, f"{count} tasks run the same command", unknown=unknown)
            return


_OF_RANKS = re.compile(
    r"(?<!com)mpi(?!ler)|\bpmix?|MASTER_|torchrun|torch|deepspeed|accelerate|(?<![a-z])ddp|distributed"
    r"|horovod|dask|\bray\b|lightning|WORLD_SIZE|rank|\bjax\b|train|gpu|cuda",
    re.IGNORECASE,
)
"""The signs of tasks that know of each other."""
