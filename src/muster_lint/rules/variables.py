"""Rules on variables of NCCL, torch and CUDA, in the batch script and in os.environ of the program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.samples import STEP, TASKS
from muster_lint.sizes import has_whole_nodes
from muster_lint.values import Hit, Severity, TextSpan

_DEAD = {
    "MIOPEN_USER_DB": "MIOPEN_USER_DB_PATH",
    "RCCL_DEBUG": "NCCL_DEBUG",
    "HOROVOD_WITHOUT_TORCH": "HOROVOD_WITHOUT_PYTORCH",
    "TORCH_DISTRIBUTED_DETAIL": "TORCH_DISTRIBUTED_DEBUG",
    "PYTORCH_CUDA_ALLOC_CONFIG": "PYTORCH_CUDA_ALLOC_CONF",
    "CUDA_VISIBLE_DEVICE": "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREAD": "OMP_NUM_THREADS",
}


_TAKES_PORT = frozenset({"deepspeed", "torchrun", "torch.distributed.run", "torch.distributed.launch"})


def _set(job: BatchScript, *names: str) -> Iterator[tuple[TextSpan, str, str]]:
    """Yield (place, name, literal value) of what the script gives to programs."""
    for assignment in job.assignments:
        if (
            assignment.name in names
            and assignment.value is not None
            and assignment.value.is_literal
            and (assignment.exported or assignment.of_command)
        ):
            yield assignment.place, assignment.name, assignment.value.value


@rule(
    "nccl-ib-timeout",
    Severity.FRAGILE,
    "an InfiniBand time-out of hours",
    why="NCCL_IB_TIMEOUT is an exponent: 4.096 µs × 2^N for each of 7 tries. 20 is half a minute, 30 is eight hours, 0 and 32 or more are for ever.",
    instead="Use 20 to 22.",
    source=sources.NCCL,
    bad=TASKS + "export NCCL_IB_TIMEOUT=120\n" + STEP,
    good=TASKS + "export NCCL_IB_TIMEOUT=22\n" + STEP,
)
def find_ib_timeouts(job: BatchScript) -> Iterator[Hit]:
    """Yield NCCL_IB_TIMEOUT beyond 23."""
    for place, _, value in _set(job, "NCCL_IB_TIMEOUT"):
        if value.isdigit() and (int(value) > 23 or int(value) == 0):
            minutes = 4.096e-6 * 2 ** int(value) * 7 / 60
            how_long = "for ever" if int(value) == 0 or int(value) > 31 else f"for {minutes:.0f} minutes"
            yield Hit(place, f"a broken link stays silent {how_long}")


@rule(
    "fabric-off",
    Severity.SLOW,
    "the fast network or the direct way between GPUs is switched off",
    why="NCCL then goes over TCP or through host memory: many times slower. It is often left from a search for a fault.",
    instead="Remove it.",
    source=sources.NCCL,
    bad=TASKS + "export NCCL_IB_DISABLE=1\nexport NCCL_P2P_DISABLE=1\n" + STEP,
    good=TASKS + STEP,
)
def find_fabric_off(job: BatchScript) -> Iterator[Hit]:
    """Yield variables that close the fast ways."""
    is_one_node = job.nodes == 1 or (job.nodes is None and "nodes" not in job.header)
    is_efa = re.search(r"FI_PROVIDER=\W?(efa|cxi)|aws-ofi|NCCL_NET=", job.text) is not None
    for place, name, value in _set(job, "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"):
        if value != "1" or (name == "NCCL_IB_DISABLE" and (is_one_node or is_efa)):
            continue
        above = job.lines[place.line - 2].lstrip() if place.line > 1 else ""
        is_explained = re.match("#(?!SBATCH)", above) or re.search(r"\s#\s*\w", job.lines[place.end_line - 1])
        if (name != "NCCL_IB_DISABLE" and job.has_one_gpu) or is_explained:
            continue
        unknown = "whether the nodes have InfiniBand" if name == "NCCL_IB_DISABLE" else "whether these GPUs need it"
        yield Hit(place, f"{name}=1 closes the fast way", unknown=unknown)
    for place, _, value in _set(job, "NCCL_NET"):
        if value == "Socket":
            yield Hit(place, "NCCL_NET=Socket is TCP")


@rule(
    "debug-switch-left-on",
    Severity.SLOW,
    "a switch for debugging left on",
    why="CUDA_LAUNCH_BLOCKING=1 and TORCH_DISTRIBUTED_DEBUG=DETAIL make every kernel or collective wait for the one before.",
    instead="Remove it.",
    source=sources.TORCH_CUDA,
    bad=TASKS + "export CUDA_LAUNCH_BLOCKING=1\n" + STEP,
    good=TASKS + STEP,
)
def find_debug_switches(job: BatchScript) -> Iterator[Hit]:
    """Yield switches that make the program wait."""
    for place, name, value in _set(job, "CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG", "AMD_SERIALIZE_KERNEL"):
        if re.match(
            r"\s*#.*(remov|hang|crash|workaround|without (it|this)|needed (to|because))",
            job.lines[place.line - 2],
            re.IGNORECASE,
        ):
            continue  # its reason stands above it
        if (name == "TORCH_DISTRIBUTED_DEBUG" and value == "DETAIL") or (
            name != "TORCH_DISTRIBUTED_DEBUG" and value not in {"0", ""}
        ):
            yield Hit(place, f"{name}={value} makes every step wait")


@rule(
    "variable-unread",
    Severity.FRAGILE,
    "a variable that no program reads",
    why="The name is wrong or was removed: setting it does nothing.",
    instead="Use the name that is read.",
    source=sources.NCCL,
    bad=TASKS + "export MIOPEN_USER_DB=/tmp/miopen\n" + STEP,
    good=TASKS + "export MIOPEN_USER_DB_PATH=/tmp/miopen\n" + STEP,
)
def find_unread(job: BatchScript) -> Iterator[Hit]:
    """Yield exported names that no program knows."""
    for assignment in job.assignments:
        meant = _DEAD.get(assignment.name) or re.sub(r"^(NCLL|NNCL|NCC|NCLC)_", "NCCL_", assignment.name)
        if meant != assignment.name and assignment.exported and f"${assignment.name}" not in job.text:
            message = f"no program reads {assignment.name}: {meant} is meant"
            yield Hit(assignment.place, message, f"Write {meant}.")
    agents = [stage for each in job.all_launches if (stage := each.stage("agent")) is not None]
    ports = (
        "--master_port",
        "--master-port",
        "--rdzv_endpoint",
        "--rdzv-endpoint",
        "--main_process_port",
        "--standalone",
    )
    if agents and not any(stage.has(*ports) or stage.hidden or stage.name not in _TAKES_PORT for stage in agents):
        port = "" if agents[0].has("--rdzv-backend", "--rdzv_backend") else ": it takes 29500"
        for each in job.shell.assigned("MASTER_PORT") if not re.search(r"\$\{?MASTER_PORT|PET_", job.body) else ():
            message = f"{agents[0].name} does not read MASTER_PORT{port}"
            takes_it = port and each.value is not None and each.value.value == "29500"
            if not (each.may_not_run or takes_it):  # else it is for what another branch starts, or changes nothing
                yield Hit(each.place, message, 'Give it --master_port "$MASTER_PORT".')


@rule(
    "visible-devices-literal",
    Severity.FRAGILE,
    "CUDA_VISIBLE_DEVICES as a literal",
    why="""Slurm gives the job its GPUs and sets this variable; a literal takes other jobs' GPUs on a shared node, or hides the job's own.
    srun sets it again for its tasks: there, only a literal in the task itself counts.""",
    instead="Remove it.",
    source=sources.SBATCH,
    bad=TASKS + "srun --kill-on-bad-exit=1 bash -c 'export CUDA_VISIBLE_DEVICES=0; python train.py'\n",
    good=TASKS + STEP,
)
def find_visible_devices(job: BatchScript) -> Iterator[Hit]:
    """Yield literals that name other devices than the job has, or fewer where they reach a program."""
    sizes = {job.gpus_per_node, *_gpus_of_steps(job)}
    if not job.gpus_per_node:
        return
    is_alone, is_kept = _is_alone(job), _keeps_devices(job)
    reached = {id(each) for task in job.tasks for each in task.shell.assignments}
    for each in job.assignments:
        value = each.value.value if each.name == "CUDA_VISIBLE_DEVICES" and each.value is not None else ""
        devices = [device for device in value.split(",") if device]
        if not devices or each.value is None or not each.value.is_literal or (each.may_not_run and not each.of_command):
            continue
        gpus = job.gpus_per_node
        most = max(gpus, *(size or 0 for size in sizes))
        beyond = [device for device in devices if device.isdigit() and int(device) >= most]
        if beyond and not has_whole_nodes(job):
            message = (
                f"the job has {gpus} GPU{'s' if gpus != 1 else ''} of a node, numbered from 0: there is no {beyond[0]}"
            )
            yield Hit(each.place, message, unknown="whether the site shows a job its own GPUs alone")
        elif len(devices) < gpus and len(devices) not in sizes and is_alone and (is_kept or id(each) in reached):
            message = f"{len(devices)} of {gpus} GPUs of the job are used"
            yield Hit(each.place, message, severity=Severity.SLOW)


def _is_alone(job: BatchScript) -> bool:
    """Tell whether the script starts one program, and so gives it all that it uses."""
    starts = [each for each in job.all_launches if each.stage("python") or each.stage("agent")]
    names = [each for each in job.assignments if each.name == "CUDA_VISIBLE_DEVICES"]
    return len(starts) == 1 and len(names) == 1 and not starts[0].command.in_background


def _keeps_devices(job: BatchScript) -> bool:
    """Tell whether what the script sets stays set for a program: srun of a job with GPUs sets it again for its tasks."""
    return any(each.stage("step") is None and (each.stage("python") or each.stage("agent")) for each in job.launches)


def _gpus_of_steps(job: BatchScript) -> Iterator[int]:
    """Yield the numbers of GPUs that steps ask for by themselves."""
    for launch in job.steps:
        stage = launch.stage("step")
        text = stage.text("--gres", "--gpus-per-node") if stage is not None else None
        number = re.search(r"(\d+)$", text or "")
        if number:
            yield int(number[1])


@rule(
    "secret-in-script",
    Severity.FRAGILE,
    "a secret in the script",
    why="Slurm keeps a copy of the script, and everybody who can read the file has the key.",
    instead="Keep it in a file of your own (mode 600) and read it in the job, or let the program read its own login.",
    source="huggingface/huggingface_hub docs/source/en/package_reference/environment_variables.md (HF_TOKEN)",
    bad=TASKS + "export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567\n" + STEP,
    good=TASKS + "export WANDB_API_KEY=$(cat ~/.wandb_key)\n" + STEP,
)
def find_secrets(job: BatchScript) -> Iterator[Hit]:
    """Yield literals in variables that hold keys; the value is not repeated."""
    for assignment in job.assignments:
        key = assignment.value.value if assignment.value is not None and assignment.value.is_literal else ""
        is_named = re.search(r"(TOKEN|API_KEY|SECRET|PASSWORD)$", assignment.name)
        if is_named and len(key) >= 16 and not re.search(r"[<>{}\s]|your|xxx|\.\.\.", key, re.IGNORECASE):
            yield Hit(assignment.place, f"{assignment.name} holds a key in clear text")
    outer = {
        id(task.launch.command) for task in job.tasks
    }  # what stands in the text of their shell is looked at itself
    for each in job.commands:
        for before, word in zip(
            ["", *(word.value for word in each.words)], each.words if id(each) not in outer else ()
        ):
            is_option = re.search(
                r"^--?\S*(token|api[-_]key|password|passwd|secret|(wandb|relogin|login)[-_]?key)$", before
            )
            is_login = re.search(r"^(login|sshpass)$", before) or before == "--relogin"
            key = word.value.partition("=")[2] if re.match(r"--\S*(token|key|password)=", word.value) else word.value
            is_key = re.fullmatch(r"[0-9a-f]{40}", key) and (is_option or is_login or key != word.value)
            if is_key or _OF_A_SERVICE.search(word.text):
                yield Hit(word.place, f"{each.program or 'this command'} is given a key in clear text")
                break
        shows = each.program in {"echo", "printf"} and not (each.writes or each.pipes_on or each.in_substitution)
        for word in each.words[1:] if shows else ():
            shown = [name for name in word.names if _OF_KEYS.search(name) and not name.startswith("SLURM_")]
            whole = [name for name in shown if re.search(rf"\$(\{{{name}\}}|{name}(?!\w))", word.text)]
            if whole and word.quoted != "'":
                message = f"{whole[0]} is written into the log, which stays, and which others may read"
                yield Hit(word.place, message, "Remove the line, or say only whether it is set: ${NAME:+set}.")
                break


_OF_KEYS = re.compile(r"(API_?KEY|SECRET(_ACCESS)?(_KEY)?|(HF|HUGGING\w*|GITHUB|GITLAB|GH)_\w*TOKEN)$")


_OF_A_SERVICE = re.compile(
    r"(?<![\w-])(hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{36}|glpat-[\w-]{20}|sk-[A-Za-z0-9]{40,}|AKIA[0-9A-Z]{16})(?![\w-])"
    r"|https?://[\w.-]+:[^\s@/$:{]{8,}@"
)
"""Keys that services mark as such, and a password in an address."""
