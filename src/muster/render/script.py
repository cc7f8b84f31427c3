"""Plan → batch script. Pure: the same plan gives the same bytes, on any machine, at any time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from muster.images import ENGINES
from muster.launchers import LAUNCHERS, Launcher
from muster.plan.model import Directive, Engine, Output, Plan, Variable
from muster.plan.words import Fragment, Word, line, quote
from muster.rank import contract
from muster.render.parts import compose, part
from muster.slurm.directives import format_directive

__all__ = ["CLASHING", "command_of", "job_script", "step_line"]

# What srun reads as options, when an outer job, a header or a login shell left it behind: our flags say it all.
CLASHING = (
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_DISTRIBUTION",
    "SLURM_CPU_BIND",
    "SLURM_GPU_BIND",
    "SLURM_GPUS_PER_TASK",
    "SLURM_HINT",
    "SLURM_EXPORT_ENV",
    "SLURM_MPI_TYPE",
    "SLURM_LABELIO",
    "SLURM_UNBUFFEREDIO",
    "SLURM_KILL_BAD_EXIT",
)
# What another launcher, or an outer job, may have said about ranks that are not these.
STALE = (*contract.PUBLISHED, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK")


def command_of(plan: Plan) -> tuple[Word, ...]:
    """The user's command as each rank runs it: in its image, after the once-per-node command."""
    return ENGINES[plan.image.engine].wrap(plan, plan.command)


def step_line(plan: Plan) -> tuple[Word, ...]:
    """The line that starts the ranks."""
    return LAUNCHERS[plan.launcher].words(plan, command_of(plan))


def job_script(plan: Plan) -> str:
    """The whole script."""
    launcher = LAUNCHERS[plan.launcher]
    lines = [
        "#!/bin/bash",
        f"# Written by muster {plan.version} for the site '{plan.site}'. It runs with sbatch alone.",
        f"#   muster submit {shlex.join(plan.typed)}",
        *(_directive(each) for each in plan.directives),
        "",
        *_texts(plan, launcher),
        *_job(plan),
        *_environment(plan),
        *_step(plan, launcher),
    ]
    return "\n".join(lines) + "\n"


def _directive(directive: Directive) -> str:
    return format_directive(directive.name, directive.value)


def _texts(plan: Plan, launcher: Launcher) -> Iterator[str]:
    """What each started process runs before the user's command, kept in shell variables."""
    yield "# What every started process runs before the command: POSIX sh, no Python, nothing is asked of anybody."
    for variable, names in launcher.prologues(plan):
        text = compose(names)
        if plan.node_prologue and variable == "muster_task":
            text = _with_node_prologue(plan, text)
        yield f"{variable}=$(\n    cat <<'MUSTER_TEXT'\n{text}MUSTER_TEXT\n)"
    yield ""
    yield part("library") + part("batch")
    if _by_srun(plan):
        yield part("watch")
    if plan.launcher == "torchrun":
        yield part("torchrun_status")
    if plan.launcher.startswith("mpirun"):
        yield part("mpirun")


def _with_node_prologue(plan: Plan, text: str) -> str:
    """The once-per-node command stands after identity is known and before the command is started."""
    head, mark, tail = text.partition("# Is this the start that was planned?")
    if not mark:
        head, mark, tail = text.partition("# One torchrun agent on each node.")
    local = "" if "muster_local_rank" in head else "muster_local_rank=0\n"
    return f"{head}{local}muster_node_prologue {shlex.join(plan.node_prologue)}\n{mark}{tail}"


def _by_srun(plan: Plan) -> bool:
    return plan.launcher in {"srun", "torchrun"} and plan.engine is Engine.SLURM


def _job(plan: Plan) -> Iterator[str]:
    """Where the job lives, and how large it turned out to be."""
    shape = plan.shape
    yield "# This job: its id, its directory, its size as Slurm granted it."
    yield (
        "[ -n \"${SLURM_JOB_ID:-}\" ] || muster_stop 'there is no Slurm job here' "
        "'queue this file with sbatch, or run it inside salloc'"
    )
    yield "muster_job=$SLURM_JOB_ID"
    if plan.output is Output.STREAM:
        yield 'muster_run_dir=${MUSTER_RUN_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/muster-XXXXXX")}'
    else:
        yield "# submit points the output to RUN/logs/batch.log, and that is how the job finds its directory."
        yield "muster_output=$(readlink /proc/$$/fd/1 2>/dev/null)"
        yield "muster_run_dir=${muster_output%/logs/batch.log}"
        yield (
            '[ "$muster_run_dir" != "$muster_output" ] || '
            "muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job"
        )
        yield (
            'mkdir -p "$muster_run_dir/logs" || muster_stop "the directory $muster_run_dir/logs cannot be made" '
            "'submit from a directory that the compute nodes can write'"
        )
    yield (
        f'cd {quote(plan.working_directory)} || muster_stop "the working directory {_in_quotes(plan.working_directory)} '
        "is not there on ${SLURMD_NODENAME:-this host}\" 'use a file system that the compute nodes see, or --chdir'"
    )
    if plan.within:
        yield f"muster_nodes={shape.nodes}"
        yield f"muster_ntasks_per_node={shape.ntasks_per_node}"
        yield (
            '[ "$muster_nodes" -le "$SLURM_JOB_NUM_NODES" ] || muster_stop '
            '"$muster_nodes nodes are asked for and the allocation has $SLURM_JOB_NUM_NODES" '
            "'ask for fewer, or leave the allocation and let Muster ask for another'"
        )
    else:
        yield "muster_nodes=$SLURM_JOB_NUM_NODES"
        yield f"muster_ntasks_per_node=${{SLURM_NTASKS_PER_NODE:-{shape.ntasks_per_node}}}"
    if shape.cpus_per_task:
        asked = str(shape.cpus_per_task)
        yield f"muster_cpus_per_task={asked if plan.within else '${SLURM_CPUS_PER_TASK:-' + asked + '}'}"
    for condition in plan.conditions:
        yield f"{condition.holds} || muster_stop {shlex.quote(condition.sentence)} {shlex.quote(condition.hint)}"
    yield ""


def _in_quotes(text: str) -> str:
    return "".join("\\" + character if character in '\\"$`' else character for character in text)


def _environment(plan: Plan) -> Iterator[str]:
    yield "# What an outer job, another launcher or the header left behind, and our own flags say better."
    yield f"unset {' '.join(CLASHING)}"
    yield f"unset {' '.join(STALE)}"
    for prelude in plan.prelude:
        yield f"{line(prelude.words)} || muster_stop {shlex.quote(prelude.failure)} {shlex.quote(_hint(prelude.reason.text))}"
    for variable in plan.variables:
        yield _variable(variable)
    meeting = plan.rendezvous
    shape = plan.shape
    yield "# What the prologue of every rank compares with what it finds."
    named = {
        contract.JOB: Fragment('"$muster_job"'),
        contract.RUN_DIRECTORY: Fragment('"$muster_run_dir"'),
        contract.LAUNCHER: plan.launcher,
        contract.EXPECTED_TASKS: Fragment("$((muster_nodes * muster_ntasks_per_node))"),
        "MUSTER_NTASKS_PER_NODE": Fragment('"$muster_ntasks_per_node"'),
        contract.EXPECTED_GPUS: str(shape.gpus_per_node),
        contract.EXPECTED_CPUS: Fragment('"$muster_cpus_per_task"') if shape.cpus_per_task else "0",
        "MUSTER_VISIBILITY": plan.visibility,
        "MUSTER_GRACE": str(plan.grace_s),
        "MUSTER_HOST_SUFFIX": meeting.host_suffix,
        "MUSTER_PORT_LOW": str(meeting.port_low),
        "MUSTER_PORT_COUNT": str(meeting.port_high - meeting.port_low + 1),
    }
    if meeting.address is not None:
        named[contract.ADDRESS] = meeting.address
    if meeting.port is not None:
        named[contract.PORT] = str(meeting.port)
    yield "export " + " ".join(f"{name}={quote(value)}" for name, value in named.items())
    if meeting.port is None and not meeting.reserved_ports:
        yield "muster_choose_port"
    if plan.launcher.startswith("mpirun"):
        carried = [
            *named,
            contract.PORT,
            contract.NODES,
            *(each.name for each in plan.variables if each.value is not None),
        ]
        yield f"muster_label={int(plan.label)}"
        yield f"muster_carried=({' '.join(dict.fromkeys(carried))} PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV)"
        yield "muster_mpirun_words"
    yield ""


def _hint(reason: str) -> str:
    return f"this line is here because: {reason}"


def _variable(variable: Variable) -> str:
    if variable.pass_on:
        return f"export {variable.name}"
    if variable.value is None:
        return f"unset {variable.name}"
    return f"export {variable.name}={quote(variable.value)}"


def _step(plan: Plan, launcher: Launcher) -> Iterator[str]:
    words = launcher.words(plan, command_of(plan))
    yield "# The ranks."
    if _by_srun(plan):
        if plan.output is Output.STREAM:
            # A socket cannot be opened by its name; srun's own words and the ranks' errors then share one stream.
            words = (words[0], Fragment('"${muster_error[@]}"'), *words[1:])
            yield "muster_error=(--error=/dev/fd/9 --open-mode=append)"
            yield "[ ! -S /dev/fd/2 ] || muster_error=()"
        keep = plan.launcher == "torchrun" and plan.output is Output.STREAM
        tail = ' 2> >(tee -a "$muster_run_dir/agents.log" >&2)' if keep else ""
        yield f"muster_step {_folded(words)}{tail}"
        if plan.launcher == "torchrun":
            files = '"$muster_run_dir/agents.log"' if keep else '"$muster_run_dir"/logs/*.log'
            yield f"muster_torchrun_status {files}"
        yield 'exit "$muster_status"'
    elif plan.output in {Output.FILES, Output.RANK_FILES}:
        yield f'{_folded(words)} >"$muster_run_dir/logs/ranks.log" 2>&1'
        yield "exit $?"
    else:
        yield _folded(words)
        yield "exit $?"


def _folded(words: tuple[Word, ...]) -> str:
    """A long line over several, one option on each, so that a person can read and edit it."""
    pieces = [quote(word) for word in words]
    lines = [pieces[0]]
    for index, piece in enumerate(pieces[1:], start=1):
        if (piece.startswith("-") and pieces[index - 1] != "sh") or piece == "sh":
            lines.append(f"    {piece}")
        else:
            lines[-1] += f" {piece}"
    return " \\\n".join(lines)
