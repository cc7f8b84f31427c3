"""Which commands of a batch script are its work, and which only stand around it. Pure."""

from __future__ import annotations

import re

from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand

AT_ONCE = frozenset(
    """
    [ [[ : alias break cat cd chmod continue cp date declare deactivate df echo env eval exit export false free
    hostname hostnamectl id let local ls mkdir module ml mv nproc nvidia-smi popd printenv printf pushd pwd read
    readonly return rm rmdir scontrol set shift shopt sleep source squeue tee test time touch trap true type ulimit
    umask uname unset wait which mapfile pyenv readarray setenv unsetenv workon .
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Commands that are over in a moment, or that wait for nothing."""
STARTS_RANKS = re.compile(r"(?<![\w.-])(python[\d.]*|torchrun\w*|accelerate|deepspeed|composer|colossalai)(?![\w.-])")
"""What starts the ranks of a training, or is one."""

SERVER = re.compile(r"\bray start\b|\bvllm serve\b|vllm\.entrypoints\S*|sglang\.launch_server|text-generation-launcher"
                    r"|\bollama serve\b|\bmongod\b|\bredis-server\b|\bllama-server\b|\btritonserver\b"
                    r"|\bstart-(head|worker)\S*")  # fmt: skip
"""A program that answers others until somebody ends it."""
MODEL_SERVER = re.compile(r"\bvllm serve\b|vllm\.entrypoints\S*|sglang\.launch_server")


def text_of(command: SimpleCommand) -> str:
    """Return the words of a command as one text."""
    return " ".join(word.value for word in command.words)


def copies(launch: LaunchCommand) -> bool:
    """Tell whether a command brings files to a place: a copy, a download, or an archive that is unpacked."""
    name = launch.stages[-1].name if launch.stages else ""
    words = " ".join([name, *(word.value for word in launch.stages[-1].words)]) if name in _COPIES else ""
    return len(launch.command.words) > 2 and bool(words) and not _LISTS.match(words)


_LISTS = re.compile(r"tar (-?[A-Za-z]*t|--list)|rclone (ls|check|size)")
_COPIES = frozenset({"rsync", "cp", "tar", "unzip", "wget", "scp", "gsutil", "rclone"})


def trains(launch: LaunchCommand) -> bool:
    """Tell whether a command runs a Python program, or a module, that may be the work of the job."""
    stage, agent = launch.stage("python"), launch.stage("agent")
    if agent is not None and agent.has("-m", "--module"):
        return True
    if (
        stage is None
        or stage.has("-c", "-V", "--version")
        or stage.text("-m") in {"venv", "pip", "virtualenv", "wandb"}
    ):
        return False
    return bool(stage.words or stage.has("-m"))


def is_work(job: BatchScript, launch: LaunchCommand) -> bool:
    """Tell whether a command is the work of the job: ranks, Python, a container, or a program not listed here."""
    if not launch.stages or _runs_harmless(launch) or _is_slip(launch.command):
        return False
    if trains(launch) or any(launch.stage(kind) for kind in ("agent", "mpi", "step", "container")):
        return True
    if [word.value for word in launch.command.words[:2]] == ["wandb", "agent"]:
        return True
    last = launch.stages[-1]
    is_read = last.word.program or last.word.value.startswith("./") or last.word.value.endswith(".sh")
    is_tool = last.name in AT_ONCE | TEXT_TOOLS | _TOOLS
    is_known = is_tool or last.name in job.functions or not is_read or last.word.value.startswith("-")
    is_script = last.kind == "shell" and not last.has("-c") and bool(last.words)
    return is_script or (last.kind == "program" and not is_known)


def _is_slip(command: SimpleCommand) -> bool:
    """Tell whether a command was meant to be none: a directive without its #, NAME = VALUE with blanks."""
    return command.program == "SBATCH" or (len(command.words) > 1 and command.words[1].value == "=")


def is_part(launch: LaunchCommand) -> bool:
    """Tell whether a command does a part of the work: a step, ranks, a container, or a program with arguments."""
    last = launch.stages[-1]
    words = [word.value for word in launch.command.words]
    if trains(launch):
        return "setup.py" not in words
    if last.word.value.startswith("$("):
        return False  # eval of what a program prints: the settings of an environment
    if last.kind in {"python", "shell"} or _PROBES.search(" ".join(words)) or last.name in AT_ONCE | HARMLESS:
        return False
    if any(launch.stage(kind) for kind in ("step", "mpi", "container")):
        return last.kind not in {"step", "mpi", "container"} or (
            last.kind == "container" and (bool(last.words) or "exec" not in words)
        )
    return len(words) > 1 and last.kind == "program" and not last.word.may_be_several


_PROBES = re.compile(
    r"^\S+ -v$"
    r"|(^|\s)(--?(version|help|list|info|dry-run|dag|unlock)|-[hV])(\s|$)|modprobe|module|version|\bsetup|devices?\b|which|lsb_release"
    r"|virtualenv|acl\b|^ip "
    r"|^(lfs|spack|nodeset|gpustat|lshw|numactl -[sH]|lstopo|jobstats|quota|conda|mamba|micromamba)\b"
    r"|instance (start|run)|^poetry install\b|\binstall\b|\bactivate\b"
)
"""The signs of a command that asks, or prepares."""


def _runs_harmless(launch: LaunchCommand) -> bool:
    last = launch.stages[-1]
    return last.kind == "program" and last.name in HARMLESS


HARMLESS = frozenset(
    """
    echo date printf sleep pkill killall mail rm mv cp ls conda deactivate sacct nvidia-smi rocm-smi free df du hostname
    module cat time sstat seff scontrol squeue mkdir touch tar rsync cd popd pwd unset kill ray env uptime source tail
    head zip dcgmi chmod set + gzip ml
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Commands that end well whatever the training did."""

ENDINGS = frozenset(
    """
    uname whoami id ps find sed awk grep git wget curl seff sbatch scancel wandb aws gsutil xargs sort wc unzip scp stat
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Commands that may fail themselves, but that say nothing of the training before them."""

TEXT_TOOLS = frozenset(
    """
    bc comm cut diff egrep expr file fold grep join jq ln md5sum nl paste rename seq sha256sum split tac tr uniq
    zcat
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Commands that make a text of a text: between the work and the end of the script they save no status."""

INSTALLERS = frozenset({"pip", "pip3", "conda", "mamba", "nvcc", "git", "make"})

_TOOLS = frozenset(
    """
    git make cmake gcc g++ nvcc sed awk column find sort wc xargs curl wget unzip gunzip basename dirname
    readlink realpath id groups who ps top sinfo sbatch salloc scancel exec sudo pip pip3 mamba
    micromamba uv apt npm tmux screen ssh scp aws gsutil dvc wandb huggingface-cli git-lfs md5sum sha256sum lscpu
    lspci which exit return trap . [ [[ true false let local : jobs disown nohup
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Commands that are not the work of a job."""


_PROGRAM = re.compile(
    r"#+!?\s*([A-Z_]+=\S* )*(time )?(srun|mpirun|mpiexec|ibrun|python[\d.]*|torchrun|accelerate launch|deepspeed"
    r"|singularity|apptainer|bash|sh|Rscript|julia|matlab|gmx|namd2|lmp\w*|\./\S+)\s"
    r".*(\.(py|sh|R|jl|sif|exe|out|in|inp)\b|\s--?[a-z]|\./\S)|#+!?\s*\./\S+\s*$"
)
"""A comment that is a program with its arguments."""


def switched_off(job: BatchScript) -> list[int]:
    """Return the lines of a script that start a program, but are comments."""
    places = [(place, text) for place, text in job.shell.comments if not text.startswith("#SBATCH")]
    return [
        place.line
        for place, text in places
        if _PROGRAM.match(text) and "setup.py" not in text and not job.lines[place.line - 1][: place.column - 1].strip()
    ]


def starts_ranks(job: BatchScript, command: SimpleCommand) -> bool:
    """Tell whether a command's words, with all that the script gives their variables, start Python or a launcher."""
    names = {name for word in command.words for name in word.names}
    for _ in range(3):
        assigned = [each for name in names for each in job.shell.assigned(name)]
        values = [each.value for each in assigned if each.value is not None]
        names |= {name for value in values for name in value.names}
    texts = [word.value for word in command.words] + [value.value for value in values]
    called = {name for text in texts for name in re.findall(r"\w+", text)}
    texts += [
        word.value for name in called & job.functions.keys() for each in job.functions[name] for word in each.words
    ]
    return STARTS_RANKS.search(" ".join(texts)) is not None
