"""Rules on modules, environments and containers. Long: one rule after the other, each with its examples."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from muster.words.chain import looked_up
from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand
from muster_lint.rule import rule
from muster_lint.samples import STEP, TASKS
from muster_lint.sizes import cpus_of_node, number_of, uses_of
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import is_work, switched_off

_CONDA_SOURCE = "conda/conda docs/source/dev-guide/deep-dives/activation.md (conda activate is a shell function)"


def _activations(job: BatchScript) -> list[SimpleCommand]:
    return [command for command in job.shell.commands if _activates(command)]


def _activates(command: SimpleCommand) -> bool:
    words = [word.value for word in command.words]
    if command.program in {"conda", "mamba", "micromamba"}:
        return words[1:2] == ["activate"]
    activate = words[1].rstrip('"') if command.program in {"source", "."} and len(words) > 1 else ""
    return activate.endswith("/bin/activate") or (activate == "activate" and len(words) > 2)


@rule(
    "modules-after-environment",
    Severity.FRAGILE,
    "modules loaded after the environment was activated",
    why="A module puts its own python and libraries in front of those of the environment.",
    instead="Load modules first, then activate the environment.",
    source="TACC-Lmod/Lmod docs/source/010_user.rst (a module prepends to PATH)",
    bad=TASKS + "source ~/env/bin/activate\nmodule load python/3.11 cuda\n" + STEP,
    good=TASKS + "module load python/3.11 cuda\nsource ~/env/bin/activate\n" + STEP,
)
def find_late_modules(job: BatchScript) -> Iterator[Hit]:
    """Yield module loads, and folders of the system that are put into PATH, behind an activation."""
    activations = _activations(job)
    first = activations[0] if activations else None
    for each in job.shell.assigned("PATH") if activations else ():
        before = [other for other in activations if other.place < each.place]
        folder = _OF_SYSTEM.match(each.value.value) if each.value is not None and not each.may_not_run else None
        if folder is not None and before and len(before) == len(activations) and not before[-1].is_conditional:
            message = f"it puts {folder[1]} before the environment of line {before[-1].place.line}"
            unknown = f"whether a python lies in {folder[1]}"
            yield Hit(each.place, message, f"Put it behind: PATH=$PATH:{folder[1]}.", unknown=unknown)
    loaded: set[str] = set()
    for command in job.shell.commands:
        named = [word.value for word in command.words[1:]]
        if command.program not in {"module", "ml"} or {"purge", "list", "avail", "use", "unload", "rm", "del"} & set(
            named[:1]
        ):
            continue
        brings_python = any(_OF_PYTHON.search(name) and name not in loaded for name in named)
        loaded |= set(named)
        is_renewed = any(activation.order > command.order for activation in activations)
        is_apart = first is not None and (first.is_conditional or command.is_conditional)  # of another branch
        if first is not None and brings_python and not is_renewed and first.order < command.order and not is_apart:
            yield Hit(command.place, f"it puts itself before the environment of line {first.place.line}")


_OF_SYSTEM = re.compile(r"(/usr/local/bin|/usr/bin|/bin)/?:(?:[^$]*:)?\$\{?PATH\b")
_OF_PYTHON = re.compile(r"python|conda|mamba|forge|torch|tensorflow|scipy", re.IGNORECASE)


@rule(
    "conda-not-set-up",
    Severity.FRAGILE,
    "conda activate without conda's shell function",
    why="""A batch shell does not read ~/.bashrc: `conda activate` stops with "Your shell has not been properly configured", and `source activate` finds
    no such file where conda is not in PATH. The script goes on with another Python.""",
    instead='Write eval "$(conda shell.bash hook)" before it, or source …/etc/profile.d/conda.sh.',
    source=_CONDA_SOURCE,
    bad=TASKS + "conda activate train\n" + STEP,
    good=TASKS + 'eval "$(conda shell.bash hook)"\nconda activate train\n' + STEP,
)
def find_unready_conda(job: BatchScript) -> Iterator[Hit]:
    """Yield conda activate in a script that does not load conda's function."""
    inits = [each for each in job.shell.commands if [word.value for word in each.words[:2]] == ["conda", "init"]]
    is_read = re.search(r"(?s)\b(conda\.sh|conda init\b.*\n\s*(source|\.) \S*\.bashrc)\b", job.body)
    if inits and not is_read:
        message = "conda init changes ~/.bashrc, which this shell has read already or never reads"
        yield Hit(inits[0].place, message, unknown="what the shell that submits exports")
        return
    interactive = bool(re.match(r"#!.*\s-(\w*[li]|-login)", job.lines[0] if job.lines else ""))
    if interactive or re.search(
        r"conda\.sh|shell\.\w+ hook|shell hook|conda_init|\.bashrc|\.bash_profile|mamba\.sh|conda shell|/bin/activate\b(?!\s*$).*conda",
        job.body,
    ):
        return
    has_path, module = _has_conda_on_path(job), _module_of_path_alone(job)
    reads = any(each.program in {"source", "."} for each in job.shell.commands)
    first_load = next((each.order for each in job.shell.commands if _brings_function(each)), None)
    for command in _activations(job):
        by_path = command.program in {"source", "."} and not has_path
        if by_path and command.words[1].value == "activate":
            message = "nothing in this script says where activate lies"
            by_its_path = "Write where it lies: source ~/miniconda3/bin/activate NAME."
            yield Hit(command.place, message, by_its_path, unknown="the PATH of the shell that submits")
        elif command.program in {"conda", "mamba"} and not command.in_substitution:
            loaded = first_load is not None and first_load < command.order
            if module and not reads:
                message = f"a module called {module} puts conda into PATH, and has no shell function"
                yield Hit(command.place, message, unknown="what the site added to it")
            elif not loaded:
                yield Hit(
                    command.place,
                    "conda's shell function is not there in a batch job",
                    unknown="what the shell that submits exports",
                )


def _brings_function(command: SimpleCommand) -> bool:
    """Tell whether a command may bring conda's shell function: a file that is read, or a module."""
    return command.program in {"source", "."} or (command.program in {"module", "ml"} and _may_hold_conda(command))


def _module_of_path_alone(job: BatchScript) -> str:
    return next((name for each in job.shell.commands for name in _brings_path_alone(each)), "")


def _has_conda_on_path(job: BatchScript) -> bool:
    """Tell whether the script loads modules, reads a file, or changes PATH: each may bring conda's programs."""
    reads = [each for each in job.shell.commands if each.program in {"source", "."} and not _activates(each)]
    loads = [each for each in job.shell.commands if each.program in {"module", "ml"} and _may_hold_conda(each)]
    return bool(reads or loads or job.shell.assigned("PATH"))


def _may_hold_conda(command: SimpleCommand) -> bool:
    """Tell whether one of these modules may bring conda's shell function: all but compilers, CUDA and MPI."""
    words = [word.value for word in command.words[1:] if word.value not in {"load", "add", "purge", "unload", "list"}]
    return any(not re.match(_WITHOUT_CONDA, word, re.IGNORECASE) for word in words)


def _brings_path_alone(command: SimpleCommand) -> list[str]:
    """Return the modules of a load that are called as EasyBuild calls those of conda."""
    words = [word.value for word in command.words[1:]] if command.program in {"module", "ml"} else []
    return [word for word in words if re.match(r"(Anaconda[23]|Miniconda[23]|Miniforge3|Mambaforge)(/|$)", word)]


_WITHOUT_CONDA = r"-|((comp\w*|nvidia|gpu|tools?|libs?|mpi|dev\w*|groupmods|core)/)?(cuda|cudnn|cudatoolkit|nccl|gcc|g\+\+|openmpi|mpich|intel-?mpi|cmake|git\b|ffmpeg|slurm|singularity|nvhpc)"


@rule(
    "bashrc-in-job",
    Severity.STYLE,
    "the login shell's settings in the job",
    why="The job then depends on a file that changes with every tool you install, and that may end early in a batch shell.",
    instead="Write into the script what the job needs.",
    source=sources.BASH,
    bad=TASKS + "source ~/.bashrc\n" + STEP,
    good=TASKS + "module load python\n" + STEP,
)
def find_bashrc(job: BatchScript) -> Iterator[Hit]:
    """Yield source ~/.bashrc."""
    for command in job.shell.commands:
        name = command.words[1].value if command.program in {"source", "."} and len(command.words) > 1 else ""
        if re.search(r"\.(bashrc|bash_profile|profile)$", name):
            yield Hit(command.place, f"the job depends on {name}")


@rule(
    "container-without-gpus",
    Severity.FRAGILE,
    "a container without the GPUs",
    why="Without --nv (NVIDIA) or --rocm (AMD) the driver's libraries are not in the container, and torch sees no GPU.",
    instead="Add --nv, or --rocm; some sites set APPTAINER_NV.",
    source="apptainer/apptainer docs, GPU Support (--nv, --rocm)",
    bad=TASKS + "srun --kill-on-bad-exit=1 apptainer exec image.sif python train.py\n",
    good=TASKS + "srun --kill-on-bad-exit=1 apptainer exec --nv image.sif python train.py\n",
)
def find_blind_containers(job: BatchScript) -> Iterator[Hit]:
    """Yield Apptainer without --nv or --rocm in a job with GPUs."""
    # On AMD nodes /dev/kfd is in the container anyway: the recipes of such sites have no flag.
    has_other_way = re.search(
        r"(APPTAINER|SINGULARITY)_(NV|ROCM)|singularity-\w*bindings|CPEbits|module load .*singularity|--nv\b|--rocm\b",
        job.text,
    )
    is_amd = re.search(r"rocm|hip|\bmi[0-9]{3}|\bamd\b|MIOPEN|ROCR_", job.text, re.IGNORECASE)
    if not job.asks_for_gpus or has_other_way or is_amd:
        return
    for launch in job.all_launches:
        stage = launch.stage("container")
        if (
            stage is not None
            and not launch.command.in_substitution
            and not _asks_a_version(launch)
            and stage.name in {"apptainer", "singularity"}
            and stage.word.value
            and (launch.stage("python") or launch.stage("agent"))
            and not launch.unknown
        ):
            verbs = {"exec", "run", "shell"}
            if verbs & {word.value for word in launch.command.words} and not stage.has("--nv", "--rocm", "--nvccli"):
                unknown = "whether the site's configuration adds them"
                yield Hit(stage.word.place, f"{stage.name} starts without the GPUs", unknown=unknown)


def _asks_a_version(launch: LaunchCommand) -> bool:
    """Tell whether the container runs a line of Python that does not speak of a GPU."""
    words = [word.value for word in launch.command.words]
    return "-c" in words and "python" in " ".join(words) and "cuda" not in " ".join(words) and launch.script is None


@rule(
    "install-in-job",
    Severity.FRAGILE,
    "packages installed by the job",
    why="""Every job, or every rank, downloads and writes the same files: compute nodes may have no internet, jobs that run beside
    each other race, and tomorrow's job gets other versions.""",
    instead="Make the environment once, before you submit.",
    source="pypa/pip docs/html/user_guide.md (pip gives no promise for several pips at once)",
    bad=TASKS + "srun --kill-on-bad-exit=1 bash -c 'pip install -r requirements.txt; python train.py'\n",
    good=TASKS + STEP,
)
def find_installs(job: BatchScript) -> Iterator[Hit]:
    """Yield pip, conda and the like in a job that does more; one finding for the batch host, one for the tasks."""
    if not job.directives or (all(_sets_up(job, each) for each in job.launches) and not switched_off(job)):
        return
    for launch in job.launches:
        command, step = _started(launch), launch.stage("step")
        if command.is_conditional or not _installs(command) or _is_of_node(job, command):
            continue
        several = step is not None and step.text("-n", "--ntasks") != "1" and not job.has_one_task
        one = f"every run of the job installs with {_installs(command)}"
        yield Hit(command.place, "every rank installs into the same place" if several else one)
        break
    for launch in job.launches:
        inside = launch.inner.commands if launch.inner is not None and not launch.stage("step") else ()
        found = [command for command in inside if _installs(command) and not _is_of_node(job, command)]
        if found:
            yield Hit(found[0].place, f"every run of the job installs with {_installs(found[0])}")
            break
    else:
        yield from _synced(job)
    for task in job.tasks:
        for command in task.shell.commands:
            if _installs(command) and not re.search(r"SLURM_LOCALID|LOCAL_RANK", task.shell.text):
                who = "node" if job.tasks_per_node == 1 else "rank"
                yield Hit(command.place, f"every {who} installs into the same place")


def _synced(job: BatchScript) -> Iterator[Hit]:
    """Yield the first `uv run`, which brings the environment up to date before it starts the program."""
    for launch in job.launches if not re.search(r"UV_(OFFLINE|NO_SYNC|FROZEN)", job.text) else ():
        words = [word.value for word in launch.command.words]
        at = next((index for index, word in enumerate(words) if re.fullmatch(r"(\S*/)?uv", word)), None)
        options = words[at + 1 :] if at is not None else []
        if options[:1] == ["run"] and not {"--no-sync", "--frozen", "--offline", "--isolated"} & set(options):
            message = "uv run brings the environment up to date first, from the network where something is missing"
            yield Hit(
                launch.command.place, message, "Add --no-sync, and sync before you submit.", unknown="whether it is"
            )
            return


def _sets_up(job: BatchScript, launch: LaunchCommand) -> bool:
    """Tell whether a command is none of the work that needs the packages: it installs, or makes their environment."""
    python, names = launch.stage("python"), launch.command.words[0].names
    makes = python is not None and python.text("-m") in {"venv", "virtualenv"}
    return makes or bool(_installs(launch.command)) or not (names or is_work(job, launch))


def _started(launch: LaunchCommand) -> SimpleCommand:
    """Return what srun or a container starts as a command of its own, or the command as it is."""
    if not (launch.stage("step") or launch.stage("container")):
        return launch.command
    last = launch.stages[-1]
    words = (last.word, *last.words) if last.kind != "python" else launch.command.words[-len(last.words) - 3 :]
    return msgspec.structs.replace(launch.command, words=words)


def _installs(command: SimpleCommand) -> str:
    """Return the installer that a command runs; empty where it installs nothing."""
    words = [word.value for word in command.words]
    words = [looked_up(each).rpartition("/")[2] for each in words[:1]] + words[1:]
    if words and words[0].startswith("python") and words[1:3] == ["-m", "pip"]:
        words = words[2:]
    if words and words[0].startswith("python") and words[1:2] == ["setup.py"]:
        return "setup.py" if {"install", "develop", "build_ext"} & set(words[2:3]) else ""
    if words[:2] == ["uv", "pip"] or words[:2] == ["micromamba", "env"]:
        words = words[1:]
    if words[:1] and re.fullmatch(r"pip[\d.]*|conda|mamba|micromamba|apt|apt-get|npm|poetry|pipenv", words[0]):
        changes = {"install"} if words[0] in {"npm", "apt", "apt-get"} else {"install", "uninstall", "create", "update"}
        return words[0] if changes & set(words[1:3]) and words[1:2] != ["config"] else ""
    return "uv" if words[:2] in (["uv", "sync"], ["uv", "add"]) else ""


def _is_of_node(job: BatchScript, command: SimpleCommand) -> bool:
    """Tell whether an installation is one of the site's own wheels, or on the node's own disk."""
    return any(word.value in {"--no-index", "-h", "--help", "--dry-run"} for word in command.words) or bool(
        re.search(r"SLURM_TMPDIR|virtualenv --no-download", job.text)
    )


@rule(
    "threads-too-many",
    Severity.SLOW,
    "more threads than CPUs of a task",
    why="The threads of a rank share fewer CPUs and wait for each other.",
    instead="Write export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK.",
    source="pytorch/pytorch docs/source/notes/multiprocessing.rst, CPU oversubscription",
    bad=TASKS
    + "#SBATCH --cpus-per-task=4\nexport OMP_NUM_THREADS=16\nsrun --cpus-per-task=4 --kill-on-bad-exit=1 python train.py\n",
    good=TASKS
    + "#SBATCH --cpus-per-task=4\nexport OMP_NUM_THREADS=4\nsrun --cpus-per-task=4 --kill-on-bad-exit=1 python train.py\n",
)
def find_many_threads(job: BatchScript) -> Iterator[Hit]:
    """Yield a literal OMP_NUM_THREADS above --cpus-per-task."""
    cpus = job.header["cpus-per-task"].value if "cpus-per-task" in job.header else None
    agents = [use for use in uses_of(job) if use.is_agent and use.tasks == 1]
    is_known = bool({"cpus-per-task", "cpus-per-gpu"} & job.header.keys())
    node, ranks = cpus_of_node(job) if is_known else None, agents[0].ranks if len(agents) == 1 else None
    reaches = any(each.name == "OMP_NUM_THREADS" and (each.exported or each.of_command) for each in job.assignments)
    for assignment in job.assignments:
        value = assignment.value.value if assignment.value is not None else ""
        if assignment.name != "OMP_NUM_THREADS" or not job.directives or not reaches:
            continue
        default = re.fullmatch(r"\$\{SLURM_CPUS_PER_TASK:?-(\d+)\}", value)
        threads = number_of(None, cpus or "" if "SLURM_CPUS_PER_TASK" in value else value)
        if threads and ranks and node and threads > 1 < ranks and ranks * threads > node:
            message = f"{ranks} ranks of a node have {threads} threads each, and {node} CPUs in all"
            yield Hit(assignment.place, message, f"Write export OMP_NUM_THREADS={max(1, node // ranks)}.")
        elif cpus and cpus.isdigit() and value.isdigit() and int(value) > int(cpus):
            yield Hit(assignment.place, f"{value} threads share {cpus} CPU{'s' * (cpus != '1')}")
        elif default and cpus is None and int(default[1]) > 1 and not _has_other_cpus(job):
            message = f"without --cpus-per-task {default[1]} threads share one CPU"
            yield Hit(assignment.place, message, unknown="what sbatch was given, and what the site gives with a GPU")


def _has_other_cpus(job: BatchScript) -> bool:
    return bool({"cpus-per-gpu", "exclusive", "mincpus"} & job.header.keys())


@rule(
    "conda-under-nounset",
    Severity.FRAGILE,
    "conda activate under set -u",
    why="What packages put into an environment's activate.d reads variables that are not set (compilers, MKL, GDAL do so): under set -u the script ends there.",
    instead="Write set +u before it, and set -u behind it.",
    source=_CONDA_SOURCE,
    bad=TASKS + 'set -euo pipefail\neval "$(conda shell.bash hook)"\nconda activate train\n' + STEP,
    good=TASKS + 'eval "$(conda shell.bash hook)"\nconda activate train\nset -euo pipefail\n' + STEP,
)
def find_activations_under_nounset(job: BatchScript) -> Iterator[Hit]:
    """Yield the first activation of a conda environment, or settings of a login shell, while set -u is on."""
    for each in job.shell.commands if job.directives else ():
        read = each.words[1].value if each.program in {"source", "."} and len(each.words) > 1 else ""
        if re.search(r"(^|/)\.?(bashrc|bash_profile|profile)$", read) and _ends_at_unset(job, each.place):
            behind = "; || true does not help" if each.is_tested else ""
            yield Hit(
                each.place,
                f"set -u is on: an unset variable in {read} ends the script{behind}",
                unknown="what it reads",
            )
            return
        is_conda = each.program in {"conda", "mamba", "micromamba", "source", "."}
        if not (is_conda and [word.value for word in each.words[1:2]] == ["activate"]) or each.in_substitution:
            continue
        if _ends_at_unset(job, each.place):
            yield Hit(
                each.place, "set -u is on here", unknown="whether the environment's own scripts read unset variables"
            )
            return


def _ends_at_unset(job: BatchScript, place: TextSpan) -> bool:
    """Tell whether set -u is on at a place of the script."""
    is_on = False
    for each in job.shell.commands:
        if each.program != "set" or each.in_substitution or each.place.line >= place.line:
            continue
        words = [word.value for word in each.words[1:]]
        for before, word in zip(["", *words], words):
            if re.fullmatch(r"[-+]\w*u\w*", word) or (word == "nounset" and re.fullmatch(r"[-+]\w*o", before)):
                is_on = (before if word == "nounset" else word).startswith("-")
    return is_on


@rule(
    "unset-under-nounset",
    Severity.FRAGILE,
    "a path that may be unset under set -u",
    why="Under set -u the script ends at a variable that nothing has set: PYTHONPATH and LD_LIBRARY_PATH in many shells.",
    instead="Write ${NAME:-}, with a default behind the sign.",
    source="bash(1), the builtin set, -u (GNU Bash 5.2 reference manual)",
    bad=TASKS + 'set -euo pipefail\nexport PYTHONPATH="$PWD:$PYTHONPATH"\n' + STEP,
    good=TASKS + 'set -euo pipefail\nexport PYTHONPATH="$PWD:${PYTHONPATH:-}"\n' + STEP,
)
def find_unset_under_nounset(job: BatchScript) -> Iterator[Hit]:
    """Yield the first reading of a path that the script has not set, while set -u is on."""
    if not job.directives or not job.sets("nounset", "u"):
        return
    words = [word for each in job.shell.commands if not each.function for word in each.words]
    words += [each.value for each in job.shell.assignments if each.value is not None]
    words = [word for word in words if not any(body <= word.place <= _end(body) for body, _ in job.shell.bodies)]
    loads = [each.place.line for each in job.shell.commands if each.program in {"module", "ml"}]
    for word in sorted(words, key=lambda each: each.place):
        for name in filter(_PATHS.__contains__, word.names) if word.quoted != "'" else ():
            place = word.place_of(name)
            own = [each for each in job.shell.assigned(name) if each.place.line < place.line]
            is_loaded = name != "PYTHONPATH" and loads and loads[0] < place.line
            if own or is_loaded or re.search(rf"\$\{{{name}:?[=?]", job.body):
                continue  # the last asks for it, or gives it a value
            if re.search(rf"\$(?:{name}\b|\{{{name}\}})", word.text) and _ends_at_unset(job, place):
                unknown = f"whether {name} is set where the job is submitted, or by a module"
                yield Hit(place, f"set -u is on, and nothing above sets {name}", unknown=unknown)
                return


def _end(body: TextSpan) -> TextSpan:
    return TextSpan(body.end_line, body.end_column, body.end_line, body.end_column)


_PATHS = {"PYTHONPATH", "LD_LIBRARY_PATH", "CPATH", "LIBRARY_PATH"}


@rule(
    "environment-of-submission",
    Severity.FRAGILE,
    "a Python that the script does not choose",
    why="""Nothing here loads or activates an environment: the job takes the one of the shell that submits, as sbatch hands it on. Next week's shell, a cron job or a
    colleague's has another one, and with --export=NONE there is none.""",
    instead="Load or activate the environment in the script, or call its Python by its path: ~/env/bin/python.",
    source=sources.SBATCH,
    bad=TASKS + "module load gcc cuda\nsrun --kill-on-bad-exit=1 python train.py\n",
    good=TASKS + "module load gcc cuda\nsource ~/env/bin/activate\nsrun --kill-on-bad-exit=1 python train.py\n",
)
def find_unchosen_pythons(job: BatchScript) -> Iterator[Hit]:
    """Yield the first Python of a job with GPUs that is looked up on PATH in a script that loads and activates nothing."""
    is_login = re.match(r"#!.*\s-(\w*[li]|-login)", job.lines[0] if job.lines else "")
    if not job.directives or not job.asks_for_gpus or is_login or _CHOOSES.search(job.body) or _given_elsewhere(job):
        return
    if re.search(r"#.*uncomment", job.text, re.IGNORECASE):
        return
    if any(each.program in {"module", "ml"} and _may_hold_conda(each) for each in job.shell.commands):
        return
    for launch in job.all_launches:
        program = launch.stage("agent") or launch.stage("python")
        words = [program.word, *launch.command.words] if program is not None else []
        bare = [word for word in words[:8] if re.fullmatch(r"python[\d.]*|torchrun|accelerate|deepspeed", word.value)]
        is_apart = launch.stage("container") is not None or launch.command.in_substitution or launch.unknown
        if bare and not is_apart and is_work(job, launch) and not launch.command.function:
            yield Hit(
                bare[0].place,
                f"nothing here says which {bare[0].value} this is",
                unknown="what the submitting shell has",
            )
            return


_CHOOSES = re.compile(
    r"(^|[\s;&|(\"'])(source|\.|conda|mamba|micromamba|eval|spack|uv|poetry|pipenv|pixi|hatch|guix|nix-shell|use|soft|pyenv|setup|docker|podman|shifter|srun_\w+"
    r"|apptainer|singularity|enroot)\s|\bPATH=|--container-|alias python|virtualenv|-m venv|workon |VIRTUAL_ENV|ulhpc|restore|bash -l|/bin/activate",
    re.MULTILINE,
)


def _given_elsewhere(job: BatchScript) -> bool:
    """Tell whether an option of the header names an image, or the environment that the job gets."""
    return bool({"container", "container-image", "image", "get-user-env", "uenv", "export"} & job.header.keys())
