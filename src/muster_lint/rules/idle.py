"""Rules on jobs that hold more than they use: no work at all, or one process for many tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.site import time_limit_of
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import INSTALLERS, is_work, switched_off, text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\n#SBATCH --time=01:00:00\n"


@rule(
    "work-switched-off",
    Severity.FRAGILE,
    "a job whose programs are all comments",
    why="The job waits in the queue, takes its nodes and GPUs, and ends at once without the work.",
    instead="Remove the # in front of the program, or do not submit the script.",
    source=sources.BASH,
    bad=_HEAD + "module load cuda\nhostname\n#python train.py --epochs 4\n",
    good=_HEAD + "module load cuda\nhostname\npython train.py --epochs 4\n",
)
def find_empty_jobs(job: BatchScript) -> Iterator[Hit]:
    """Yield the first program that is a comment in a script that starts no other one, or an environment that nothing uses."""
    off = switched_off(job)
    if not job.directives or job.shell.error is not None or "hetjob" in job.text:
        return
    if not off:
        yield from _unused_environments(job)
        return
    if all(_is_preparation(each) for each in job.shell.commands):
        line = job.lines[off[0] - 1]
        others = f", as {len(off) - 1} more" if len(off) > 1 else ""
        installs = [each for each in job.shell.commands if each.program in INSTALLERS and each.program != "nvcc"]
        does = "installs packages and ends" if any("install" in text_of(each) for each in installs) else "starts none"
        place = TextSpan(off[0], 1, off[0], len(line) + 1)
        yield Hit(place, f"this program is a comment{others}: the job {does}")


def _unused_environments(job: BatchScript) -> Iterator[Hit]:
    """Yield the activation of an environment behind which a job with GPUs, or of an hour and more, starts nothing."""
    last = job.shell.commands[-1] if job.shell.commands else None
    is_long = job.asks_for_gpus or (time_limit_of(job) or 0) >= 3600
    activates = last is not None and re.match(
        r"(conda|mamba|micromamba) activate |(source|\.) (activate |\S*/bin/activate)", text_of(last)
    )
    if (
        last is not None
        and activates
        and is_long
        and not job.shell.heredocs
        and all(_is_preparation(each) for each in job.shell.commands)
    ):
        yield Hit(last.place, "the job activates an environment, and starts no program in it")


def _is_preparation(command: SimpleCommand) -> bool:
    """Tell whether a command only looks around, or prepares what no command then uses."""
    text = text_of(command)
    if command.program in {"source", "."}:
        return re.search(r"activate|rc$|profile|conda\.sh|init|module|env|setup", text) is not None
    if command.program in {"conda", "mamba", "micromamba"} and " run " in text:
        return False
    if command.program in {"python", "python3", "nvcc", "gcc", "julia"}:
        return re.search(r" (-V|--version)$", text) is not None
    return command.program in _PREPARES and not command.writes and not command.in_background


_PREPARES = frozenset(
    """
    [ [[ : alias cd conda mamba micromamba date declare deactivate df echo export false free hostname id let local ls mkdir module ml nproc
    nvidia-smi popd printenv printf pushd pwd readonly return set shift shopt true type ulimit umask uname unset which pip pip3 lscpu rocm-smi exit
    whoami env cat clear
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""Commands that look around or prepare: a job of these alone does no work."""


@rule(
    "one-process-many-tasks",
    Severity.SLOW,
    "one process in a job of several tasks",
    why="""A program that nothing starts in the tasks is one process on the first node: the GPUs and CPUs that were asked for with the other tasks idle, and they are
    paid for.""",
    instead="Start it with srun, which starts one process for each task. Or ask for one task.",
    source=sources.SBATCH,
    bad="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=1\n#SBATCH --time=01:00:00\n./solve in.dat\n",
    good="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=1\n#SBATCH --time=01:00:00\nsrun ./solve in.dat\n",
)
def find_lonely_processes(job: BatchScript) -> Iterator[Hit]:
    """Yield the one plain program of a job with a GPU for each of several tasks, and mpirun of fewer processes than tasks."""
    tasks = _tasks(job)
    if not job.directives or tasks < 2 or "array" in job.header:
        return
    yield from _small_worlds(job, tasks)
    gpus = job.header.get("gpus-per-task")
    if re.search(_SPREADS, job.body):
        return
    works = [each for each in job.launches if is_work(job, each) and not each.command.in_substitution]
    plain = [each for each in works if each.stages[-1].kind == "program" and not each.unknown]
    if len(works) != 1 or not plain or plain[0].command.in_background or plain[0].command.in_loop:
        return
    program = plain[0].stages[-1].name
    unknown = f"whether {program} starts others itself"
    if gpus is not None and gpus.value not in {None, "0"} and not program.endswith(".sh"):
        message = f"{tasks} tasks have a GPU each, and {program} is one process"
        yield Hit(plain[0].command.place, message, unknown=unknown)


def _tasks(job: BatchScript) -> int:
    """Return the tasks that a header asks for; 1 where it does not say."""
    total = job.header["ntasks"].value if "ntasks" in job.header else None
    if total is not None:
        return int(total) if re.fullmatch(r"[0-9]{1,6}", total) else 1
    return (job.tasks_per_node or 1) * (job.nodes or 1)


_SPREADS = (
    r"\b(srun|mpi\w*|horovodrun|ibrun|ssh|pdsh|parallel|ray|dask|prun|xargs|SLURM_\w*(NTASKS|NPROCS|NODELIST)\w*)\b"
)


def _small_worlds(job: BatchScript, tasks: int) -> Iterator[Hit]:
    """Yield the first mpirun of a literal number of processes, where each launcher of the job starts fewer than its tasks."""
    launchers = [stage for each in job.all_launches if (stage := each.stage("mpi") or each.stage("step")) is not None]
    numbers = [stage.text("-np", "-n", "--np", "--n", "--ntasks") or "" for stage in launchers]
    is_known = numbers and all(number.isdigit() and 0 < int(number) <= tasks // 2 for number in numbers)
    commands = [each.command for each in job.all_launches]
    is_apart = any(each.in_background or (each.in_loop and each.words[-1].names) for each in commands)
    if not is_known or is_apart or _THREADS.search(job.body):
        return
    first = next((stage for stage in launchers if stage.kind == "mpi"), None)
    if first is not None:
        number = max(map(int, numbers))
        message = f"{first.name} starts {number} process{'es' * (number > 1)} in a job of {tasks} tasks"
        instead = "Ask for as many tasks as it starts. Where it starts threads give them CPUs: --cpus-per-task, and --bind-to none,"
        instead += " since Open MPI binds one or two processes to a core each."
        unknown = "whether the program starts threads itself"
        yield Hit(first.place_of("-np", "-n", "--np", "--n"), message, instead, unknown=unknown)


_THREADS = re.compile(
    r"_NUM_THREADS|--map-by|-ppn|-npernode|--cpus-per-proc|-nt\b|--n?threads|-t \d|[A-Za-z]mpi\b|mpi[_4-]|\bR\b|Rscript|spawn|futures|pool",
    re.IGNORECASE,
)
"""Signs of processes that have several CPUs each, or that start the others by MPI themselves."""


@rule(
    "gpus-for-data",
    Severity.SLOW,
    "GPUs for work that seems to need none",
    why="A download, an archive or a conversion of files runs on CPUs: the GPU waits beside it, and so does whoever needs it.",
    instead="Do it in a job without GPUs, with the CPUs that it uses.",
    source=sources.SBATCH,
    bad=_HEAD + "set -e\nsource ~/env/bin/activate\npython preprocess_data.py --in raw --out data\n",
    good=_HEAD.replace("#SBATCH --gres=gpu:1\n", "")
    + "set -e\nsource ~/env/bin/activate\npython preprocess_data.py --in raw --out data\n",
)
def find_gpus_for_data(job: BatchScript) -> Iterator[Hit]:
    """Yield the GPUs of a job whose programs are all called as work on files is."""
    asked = next((job.header[name] for name in ("gres", "gpus", "gpus-per-node") if name in job.header), None)
    if asked is None or not job.asks_for_gpus:
        return
    if _OF_GPU.search(re.sub(_INSTALLED, "", job.body)):
        return
    works = [each for each in job.all_launches if is_work(job, each) and not each.command.in_substitution]
    works = [each for each in works if each.stages[-1].name != "virtualenv"]
    if not works and _only_installs(job):
        yield Hit(
            asked.place, "the job takes a GPU to install packages", unknown="whether a build of them looks for one"
        )
    if not works or any(each.inner is not None or each.unknown for each in works):
        return
    names = [each.script.value if each.script is not None else "" for each in works]
    if all(_ON_FILES.search(name.rpartition("/")[2]) for name in names):
        first = names[0].rpartition("/")[2]
        others = " and the like" if len(set(names)) > 1 else ""
        yield Hit(asked.place, f"the job takes a GPU for {first}{others}", unknown="whether that computes on it")


def _only_installs(job: BatchScript) -> bool:
    """Tell whether all that a job does is to install packages, none of which is compiled for the GPU of its node."""
    installs = [each for each in job.shell.commands if _INSTALLS.match(text_of(each))]
    others = [each for each in job.shell.commands if each not in installs]
    is_built = (
        any(_COMPILES.search(text_of(each)) for each in job.shell.commands if each.program != "conda")
        or job.shell.heredocs
        or switched_off(job)
    )
    return (
        bool(installs)
        and not is_built
        and all(_is_preparation(each) or each.program in {"source", "conda"} for each in others)
    )


_INSTALLED = re.compile(r"^.*\b(pip[\d.]*|conda|mamba) (env )?(install|create|update)\b.*$", re.MULTILINE)
_INSTALLS = re.compile(r"(\S*python\S* -m )?pip[\d.]* install\b|((micro)?mamba|conda) (env )?(install|create|update)\b")
_COMPILES = re.compile(
    r"flash|apex|nvcc|make\b|TORCH_CUDA|xformers|detectron|setup\.py|--no-build-isolation|git\+|causal|mamba[-_]ssm|install (-e )?\.|mmcv|pytorch3d|torch[-_](scatter|sparse)",
    re.IGNORECASE,
)


_ON_FILES = re.compile(
    r"^(\w*_)?(pre_?process\w*|prepare_?\w*|convert\w*|tokeni[sz]e\w*|download\w*|(create|make|build|write)_?\w*(tfrec|records?|lmdb|hdf5|h5|dataset|vocab|csv|json|(?<![a-z])db(?![a-z]))\w*"
    r"|unzip\w*|merge_(data|csv|files)\w*|split_(data|train)\w*)\.(py|sh)$",
    re.IGNORECASE,
)
_OF_GPU = re.compile(
    r"--?\w*(gpu|cuda|device)|torchrun|accelerate|deepspeed|nvidia-smi|train(?!\w*\.(txt|csv|json|tfrec|h5)|_?(db|data|set|val)|/)|infer|embed|model(?!/)|encod|CUDA_VISIBLE|predict|eval",
    re.IGNORECASE,
)
