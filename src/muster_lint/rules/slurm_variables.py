"""Rules on Slurm's variables: a name that Slurm does not set, and one that it sets for another option."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster.errors import nearest_name
from muster_lint import sources
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.samples import TASKS
from muster_lint.values import Hit, Severity, TextSpan


@rule(
    "slurm-variable-misspelt",
    Severity.FRAGILE,
    "a SLURM_ variable that Slurm does not set",
    why="The shell expands it to nothing.",
    instead="Write the name that Slurm sets.",
    source=sources.SBATCH,
    bad=TASKS + "srun --kill-on-bad-exit=1 --nodes=$SLURM_JOB_NUMNODES python train.py\n",
    good=TASKS + "srun --kill-on-bad-exit=1 --nodes=$SLURM_JOB_NUM_NODES python train.py\n",
)
def find_misspelt_variables(job: BatchScript) -> Iterator[Hit]:
    """Yield expansions of SLURM_ names that are near to one of Slurm's but are not one."""
    own = {each.name for each in job.assignments}
    for place, name in _expansions(job):
        known = re.sub(r"_(HET|PACK)_GROUP_\d+$", "", name) in _SLURM_NAMES
        if name.startswith(("SLURM_", "SLRUM_")) and not known and name not in own:
            near_name = nearest_name(name[6:], sorted(each[6:] for each in _SLURM_NAMES))
            if near_name is not None:
                message = f"Slurm sets no {name}: did you mean 'SLURM_{near_name}'?"
                yield Hit(place, message, unknown="what the site sets")


@rule(
    "slurm-variable-unset",
    Severity.STYLE,
    "a SLURM_ variable that this header does not make Slurm set",
    why="Slurm sets these variables only where their option was given to sbatch; otherwise the shell expands them to nothing.",
    instead="Give the option in the header, or write ${NAME:-DEFAULT}.",
    source=sources.SBATCH,
    bad="#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n#SBATCH --time=01:00:00\nsrun --ntasks-per-node=1 --kill-on-bad-exit=1 python train.py --gpus $SLURM_GPUS_PER_NODE\n",
    good="#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n#SBATCH --time=01:00:00\nsrun --ntasks-per-node=1 --kill-on-bad-exit=1 python train.py --gpus $SLURM_GPUS_PER_NODE\n",
)
def find_unset_variables(job: BatchScript) -> Iterator[Hit]:
    """Yield expansions of variables whose option is missing in the header."""
    if not job.directives:
        return
    own = {each.name for each in job.assignments} | set(re.findall(r"\$\{(\w+):?=", job.text))
    for place, name in _expansions(job):
        options = _SET_BY.get(name)
        if options is None or name in own or _is_asked(job, name, place):
            continue
        if not options & job.header.keys():
            yield Hit(place, f"${name} is empty: the header has no --{min(options)}", unknown="what sbatch was given")
        elif name == "SLURM_GPUS_PER_TASK":
            message = f"Slurm 22.05 sets ${name} for --gpus-per-task, 24.11 and 26.05 do not"
            yield Hit(place, message, "Write the number.", unknown="which Slurm it is")
    if (job.nodes or 1) > 1 and not {"ntasks", "ntasks-per-node", "ntasks-per-gpu"} & job.header.keys():
        for place, text in _defaults_of(job, "SLURM_NTASKS"):
            if int(text) == 0 or int(text) % (job.nodes or 1):
                message = f"the header asks for no number of tasks, so SLURM_NTASKS is not set and {text} holds"
                yield Hit(place, message, "Give --ntasks-per-node in the header.", unknown="what sbatch was given")


def _is_asked(job: BatchScript, name: str, place: TextSpan) -> bool:
    """Tell whether the line, or the branch around it, asks first whether the variable has a value."""
    question = re.compile(rf"-n\s+\"?\$\{{?{name}\b|-v\s+{name}\b|!\s+-z\s+\"?\$\{{?{name}\b")
    before = job.lines[place.line - 1][: place.column - 1]
    around = [block.line - 1 for block, _ in job.shell.blocks if block.line <= place.line <= block.end_line]
    other_branch = re.compile(rf"-z\s+\"?\$\{{?{name}\b.*\belse\b", re.DOTALL)
    return (question.search(before) is not None and "&&" in before) or any(
        question.search(job.lines[line]) or other_branch.search("\n".join([*job.lines[line : place.line - 1], before]))
        for line in around
    )


def _defaults_of(job: BatchScript, name: str) -> Iterator[tuple[TextSpan, str]]:
    """Yield the places of ${NAME:-VALUE}, each with the value."""
    words = [word for each in job.shell.commands for word in each.words]
    words += [each.value for each in job.shell.assignments if each.value is not None]
    for word in words:
        match = re.search(rf"\$\{{{name}:?-(\d+)\}}", word.text)
        if match:
            yield word.place, match[1]


_TAKES_COUNT = "nproc[-_]per[-_]node|num_processes|num_gpus|nproc|np|n|ntasks(?:-per-node)?"


_SET_BY = {
    "SLURM_GPUS_PER_NODE": frozenset({"gpus-per-node"}),
    "SLURM_GPUS_PER_TASK": frozenset({"gpus-per-task"}),
    "SLURM_CPUS_PER_TASK": frozenset({"cpus-per-task"}),
    "SLURM_NTASKS_PER_NODE": frozenset({"ntasks-per-node"}),
    "SLURM_CPUS_PER_GPU": frozenset({"cpus-per-gpu"}),
    "SLURM_MEM_PER_CPU": frozenset({"mem-per-cpu"}),
    "SLURM_MEM_PER_GPU": frozenset({"mem-per-gpu"}),
    "SLURM_GPUS": frozenset({"gpus"}),
    "SLURM_NTASKS": frozenset({"ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-core", "ntasks-per-socket"}),
    "SLURM_NPROCS": frozenset({"ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-core", "ntasks-per-socket"}),
}


def _expansions(job: BatchScript) -> Iterator[tuple[TextSpan, str]]:
    """Yield the variables that the batch script expands without a default, each with its word; not those of echo."""
    commands = [each for each in job.shell.commands if each.program not in {"echo", "printf"}]
    words = [word for each in commands for word in each.words]
    words += [each.value for each in job.shell.assignments if each.value is not None]
    for word in words:
        for name in dict.fromkeys(word.names):
            if not re.search(rf"\$\{{{name}:?[-=?+]", word.text):
                yield word.place_of(name), name


_SLURM_NAMES = frozenset(
    f"SLURM_{name}"
    for name in """
    ARRAY_JOB_ID ARRAY_TASK_COUNT ARRAY_TASK_ID ARRAY_TASK_MAX ARRAY_TASK_MIN ARRAY_TASK_STEP CLUSTER_NAME CLUSTERS CONF
    CPU_BIND CPU_FREQ_REQ CPUS_ON_NODE CPUS_PER_GPU CPUS_PER_TASK CONTAINER DEBUG DIST_PLANESIZE DISTRIBUTION EXACT
    EXPORT_ENV GPU_BIND GPU_FREQ GPUS GPUS_ON_NODE GPUS_PER_NODE GPUS_PER_SOCKET GPUS_PER_TASK GTIDS HET_SIZE HINT
    JOB_ACCOUNT JOB_CPUS_PER_NODE JOB_DEPENDENCY JOB_END_TIME JOB_GID JOB_GPUS JOB_ID JOB_NAME JOB_NODELIST
    JOB_NUM_NODES JOB_PARTITION JOB_QOS JOB_RESERVATION JOB_START_TIME JOB_TOKEN JOB_UID JOB_USER JOBID KILL_BAD_EXIT
    LABELIO LAUNCH_NODE_IPADDR LOCALID MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE MPI_TYPE NETWORK NNODES
    NODEID NODELIST NODE_ALIASES NPROCS NTASKS NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_NODE NTASKS_PER_SOCKET
    OVERCOMMIT PRIO_PROCESS PROCID PROFILE RESTART_COUNT SHARDS_ON_NODE SPANK STEP_GPUS STEP_ID STEP_LAUNCHER_PORT
    STEP_NODELIST STEP_NUM_NODES STEP_NUM_TASKS STEP_RESV_PORTS STEP_TASKS_PER_NODE STEPID SUBMIT_DIR SUBMIT_HOST
    SUBMIT_UID TASK_PID TASKS_PER_NODE THREADS_PER_CORE TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN TRES_PER_TASK UMASK
    UNBUFFEREDIO WCKEY TMPDIR JOBTMP SCRATCH NODEFILE CONFIG_FILE PARTITION WAIT
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
