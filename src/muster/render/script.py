"""Plan → batch script. Pure: the same plan gives the same bytes, on any machine, at any time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from muster.launchers import launcher_named
from muster.launchers.base import RANK, Launcher, Prologue
from muster.model.plan import SNAPSHOT_HERE, Directive, Engine, Output, Plan, Variable
from muster.model.words import Fragment, Hidden, Word, line, quote
from muster.plan.effect import narrows
from muster.plan.secret import hidden_names
from muster.rank import contract
from muster.render.image import definition_lines, prologue_end, step_words, with_step_flags
from muster.render.parts import compose, part
from muster.slurm.directives import format_directive
from muster.slurm.variables import CLASHING, CLASHING_WITHIN

__all__ = ["STALE", "job_script", "prologue_text", "told_to_tasks"]

# What another launcher, or an outer job, may have said about ranks that are not these.
_CARRIED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
STALE = (
    *contract.PUBLISHED,
    "JAX_COORDINATOR_ADDRESS",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
)


def job_script(asked: Plan) -> str:
    """The whole script."""
    plan = with_step_flags(asked)
    launcher = launcher_named(plan.launcher)
    runs_with, verb = ("bash", "run") if plan.engine is Engine.HERE or plan.within else ("sbatch", "submit")
    lines = [
        "#!/bin/bash",
        f"# Written by muster {plan.version} for the site '{plan.site}'. It runs with {runs_with} alone.",
        f"#   muster {verb} {_one_line(shlex.join(plan.typed))}",
        *(_directive(each) for each in plan.directives),
        "",
        "# shellcheck disable=SC2016  # words and values of the user's reach the ranks as they are",
        "",
        "# The job. What it calls stands below.",
        "muster_main() {",
        *(f"    {each}" if each else "" for each in _main(plan, launcher)),
        "}",
        "",
        *_texts(plan, launcher),
        "muster_main",
    ]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """A command as a comment shows it: a line break in it would end the comment."""
    return "".join(each if each.isprintable() else _bytes_of(each) for each in text)


def _bytes_of(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))


def _main(plan: Plan, launcher: Launcher) -> Iterator[str]:
    """The lines of the job itself. A line may hold a line break of the user's, so nothing is indented afterwards."""
    yield "# Ctrl-C, SIGTERM or a hang-up ends the ranks; whatever the launcher then says, this is what happened."
    yield "trap 'muster_interrupted=130' INT"
    yield "trap 'muster_interrupted=143' TERM"
    yield "trap 'muster_interrupted=129' HUP"
    yield from _job(plan)
    yield from _environment(plan, launcher)
    yield from _step(plan, launcher)


def _directive(directive: Directive) -> str:
    return format_directive(directive.name, directive.value)


def _texts(plan: Plan, launcher: Launcher) -> Iterator[str]:
    """What each started process runs before the user's command, kept in shell variables."""
    if any(isinstance(each.hint, Fragment) for each in plan.prelude):
        yield part("modules")
    if any(each.words[0] == "muster_conda" for each in plan.prelude):
        yield part("conda")
    if hidden_names(plan):
        yield part("passed")
    if may_run_again(plan):
        yield part("attempt")
    if not launcher.starts_ranks:
        yield part("stop")
        return
    yield "# What every started process runs before the command: POSIX sh, no Python, nothing is asked of anybody."
    for prologue in launcher.prologues(plan):
        yield f"{prologue.variable}=$(\n    cat <<'MUSTER_TEXT'\n{prologue_text(plan, prologue)}MUSTER_TEXT\n)"
    yield ""
    yield part("stop")
    if plan.staging is not None:
        from muster.render.staging import stage_texts

        yield from stage_texts()
    if _chooses_port(plan, launcher) or _chooses_address(plan, launcher):
        yield part("meeting")
    if _chooses_port(plan, launcher):
        yield part("port")
    if _chooses_address(plan, launcher):
        yield part("address")
    yield from map(part, launcher.parts(plan))
    if plan.image.may_be_unpacked:
        yield part("unpacked")


def prologue_text(plan: Plan, prologue: Prologue) -> str:
    """Return the text that the script keeps for a started process; what runs once on a node follows its identity."""
    known = (*prologue.common, *prologue.identity)
    if prologue.variable != RANK:
        return compose((*known, *prologue.start, *prologue.last))
    once = f"{part('cpu_flags')}muster_cpu_has {shlex.join(plan.cpu_flags)}\n" if plan.cpu_flags else ""
    if plan.node_prologue:
        once += f"{once and chr(10)}{part('once_per_node')}muster_node_prologue {shlex.join(plan.node_prologue)}\n"
    texts = (
        compose(known),
        once,
        compose(prologue.start),
        *_before_the_command(plan, prologue),
        compose(prologue.last),
    )
    return "\n".join(text for text in texts if text)


def _before_the_command(plan: Plan, prologue: Prologue) -> Iterator[str]:
    """Yield what the image and staged copies need, where everything else is known."""
    texts = [prologue_end(plan)]
    if plan.staging is not None:
        texts.append(part("stage_rank"))
    if prologue.counted and any(texts):
        yield "# The first word is a number.\nmuster_counted=1\n"
    yield from texts


def _chooses_port(plan: Plan, launcher: Launcher) -> bool:
    """Return whether the script looks for a port: none was asked for, Slurm reserves none, and nobody has looked."""
    meeting = plan.rendezvous
    asked = meeting.port is not None or meeting.reserved_ports
    # Where the step lies on other nodes of its allocation, nobody knows yet on which.
    standing = asked or narrows(plan.step_flags)
    return not standing and plan.engine is Engine.SLURM and launcher.starts_ranks


def _chooses_address(plan: Plan, launcher: Launcher) -> bool:
    """Return whether the script looks up the address of rank 0's host: its name alone does not do at this site."""
    return bool(plan.rendezvous.rule) and plan.engine is Engine.SLURM and launcher.starts_ranks


def _job(plan: Plan) -> Iterator[str]:
    """Where the job lives, and how large it turned out to be."""
    yield "# This job: its id, its directory, its size as it was granted."
    if plan.engine is Engine.HERE:
        yield "muster_job=here-$$"
        yield "muster_run_dir=$PWD/muster-runs/$muster_job"
    else:
        yield (
            "[ -n \"${SLURM_JOB_ID:-}\" ] || muster_stop 'there is no Slurm job here' "
            "'queue this file with sbatch, or run it inside salloc'"
        )
        yield "muster_job=$SLURM_JOB_ID"
        yield from _run_directory(plan)
    yield _change_directory(plan)
    yield from _size(plan)
    for condition in plan.conditions:
        yield f"{condition.holds} || muster_stop {shlex.quote(condition.sentence)} {shlex.quote(condition.hint)}"
    yield ""


def _change_directory(plan: Plan) -> str:
    if plan.snapshot:
        return (
            f'cd -P "$muster_run_dir"/{SNAPSHOT_HERE} || muster_stop "the copy of the project is not in '
            "$muster_run_dir\" 'muster submit makes it; without --snapshot the script runs where the project lies'"
        )
    return (
        f"cd {quote(plan.working_directory)} || muster_stop "
        f"{shlex.quote(f'the working directory {plan.working_directory} is not there')}"
        " 'use a file system that the compute nodes see, or --chdir'"
    )


def _run_directory(plan: Plan) -> Iterator[str]:
    if plan.output is Output.STREAM:
        yield "muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job"
        return
    yield "# submit points the output to RUN/logs/batch.log, and that is how the job finds its directory."
    yield "muster_output=$(readlink /proc/$$/fd/1 2>/dev/null)"
    yield "muster_run_dir=${muster_output%/logs/batch.log}"
    yield (
        '[ "$muster_run_dir" != "$muster_output" ] || muster_run_dir=${SLURM_SUBMIT_DIR:-$PWD}/muster-runs/$muster_job'
    )
    yield (
        '(umask 077 && mkdir -p "$muster_run_dir/logs") || '
        'muster_stop "the directory $muster_run_dir/logs cannot be made" '
        "'submit from a directory that the compute nodes can write'"
    )
    if plan.output is not Output.MOVED:
        yield "muster_logs=$muster_run_dir/logs"
    if may_run_again(plan):
        yield from ["muster_may_run_again=1"] * bool(hidden_names(plan))
        yield "muster_attempt"


def may_run_again(plan: Plan) -> bool:
    """Whether Slurm may put the job back into the queue."""
    return plan.output is not Output.STREAM and any(each.name == "requeue" for each in plan.directives)


def _size(plan: Plan) -> Iterator[str]:
    """Sizes come from Slurm, so `sbatch -N 8 job.sh` scales; over an allocation that stands they are the request's."""
    shape = plan.shape
    literal = plan.within or plan.engine is Engine.HERE
    yield f"muster_nodes={shape.nodes if literal else '$SLURM_JOB_NUM_NODES'}"
    per_node = shape.ntasks_per_node
    yield f"muster_ntasks_per_node={per_node if literal else f'${{SLURM_NTASKS_PER_NODE:-{per_node}}}'}"
    if shape.cpus_per_task:
        cpus = shape.cpus_per_task
        yield f"muster_cpus_per_task={cpus if literal else f'${{SLURM_CPUS_PER_TASK:-{cpus}}}'}"
    if plan.within:
        yield (
            '[ "$muster_nodes" -le "$SLURM_JOB_NUM_NODES" ] || muster_stop '
            '"$muster_nodes nodes are asked for and the allocation has $SLURM_JOB_NUM_NODES" '
            "'ask for fewer, or leave the allocation and let Muster ask for another'"
        )


def _environment(plan: Plan, launcher: Launcher) -> Iterator[str]:
    yield "# What an outer job, another launcher or the header left behind, and our own flags say better."
    yield f"unset {' '.join(CLASHING)}"
    if plan.within:
        # GPUs of a node are in the step's own words, if there are any.
        yield f"unset {' '.join((*CLASHING_WITHIN, *(() if plan.shape.gpus_per_node else ('SLURM_GPUS_PER_NODE',))))}"
    yield f"unset {' '.join(STALE)}"
    for prelude in plan.prelude:
        stop = f"muster_stop {shlex.quote(prelude.failure)} {quote(prelude.hint)}"
        yield f"{line(prelude.words)} || {stop}"
    for variable in plan.variables:
        if not isinstance(variable.value, Hidden):
            yield _variable(variable)
    if hidden_names(plan):
        yield f"muster_pass {' '.join(hidden_names(plan))}"
    if plan.rank_library is not None:
        yield f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{quote(plan.rank_library)}'
    told = told_to_tasks(plan)
    yield "# What the prologue of every rank compares with what it finds."
    yield "export " + " ".join(f"{name}={quote(value)}" for name, value in told.items())
    if plan.staging is not None:
        from muster.render.staging import stage_lines

        yield from stage_lines(plan, plan.staging)
    if _chooses_port(plan, launcher):
        yield "muster_choose_port"
    if _chooses_address(plan, launcher):
        yield f"muster_choose_address {line(plan.rendezvous.rule)}"
    yield from launcher.prepare(plan, _carried(plan))
    yield ""


def _carried(plan: Plan) -> tuple[str, ...]:
    """Return the variables that every rank has to get, for launchers that bring no environment to other hosts."""
    set_by_plan = (each.name for each in plan.variables if each.value is not None)
    meeting = (contract.PORT, contract.PORT_CHOSEN, contract.NODES)
    return tuple(dict.fromkeys([*told_to_tasks(plan), *meeting, *set_by_plan, *_staged(plan), *_CARRIED]))


def _staged(plan: Plan) -> tuple[str, ...]:
    if plan.staging is None:
        return ()
    from muster.render.staging import STAGE_VARIABLES

    return STAGE_VARIABLES


def _python_of_ranks(plan: Plan) -> str | None:
    """Return the Python of the environment that the script activates: a node without it would find another."""
    if plan.image.image is not None or plan.staging is not None:
        return None
    for words in (each.words for each in plan.prelude):
        if len(words) == 2 and words[0] == "." and str(words[1]).endswith("/bin/activate"):
            return str(words[1]).removesuffix("activate") + "python"
        if words[0] == "muster_conda":
            return f"{words[1]}/bin/python"
    return None


def told_to_tasks(plan: Plan) -> dict[str, Word]:
    """Muster's own variables, by which every rank checks its start."""
    meeting, shape = plan.rendezvous, plan.shape
    told: dict[str, Word] = {
        contract.JOB: Fragment('"$muster_job"'),
        contract.RUN_DIRECTORY: Fragment('"$muster_run_dir"'),
        contract.LAUNCHER: plan.launcher,
        contract.AGENTS: str(int(launcher_named(plan.launcher).leaves_daemons)),
        contract.EXPECTED_TASKS: Fragment("$((muster_nodes * muster_ntasks_per_node))"),
        contract.TASKS_PER_NODE: Fragment('"$muster_ntasks_per_node"'),
        contract.EXPECTED_GPUS: str(shape.gpus_per_node),
        contract.EXPECTED_CPUS: Fragment('"$muster_cpus_per_task"') if shape.cpus_per_task else "0",
        contract.VISIBILITY: plan.visibility,
        contract.GRACE: str(plan.grace_s),
        contract.PORT_LOW: str(meeting.port_low),
        contract.PORT_COUNT: str(meeting.port_high - meeting.port_low + 1),
    }
    if meeting.host_suffix:
        told[contract.HOST_SUFFIX] = meeting.host_suffix
    if meeting.address is not None:
        told[contract.ADDRESS] = meeting.address
    if meeting.port is not None:
        told[contract.PORT] = str(meeting.port)
    elif meeting.range_asked:
        told[contract.RANGE_ASKED] = "1"
    if plan.wireup is not None:
        told[contract.METHOD] = plan.wireup
    if (python := _python_of_ranks(plan)) is not None:
        told[contract.PYTHON] = python
    return told


def _variable(variable: Variable) -> str:
    if variable.pass_on:
        return f"export {variable.name}"
    if variable.value is None:
        return f'unset "${{!{variable.name[:-1]}@}}"' if variable.name.endswith("*") else f"unset {variable.name}"
    return f"export {variable.name}={quote(variable.value)}"


def _step(plan: Plan, launcher: Launcher) -> Iterator[str]:
    yield from definition_lines(plan)
    yield "# The ranks."
    yield from launcher.step(plan, step_words(plan))
    if not launcher.starts_ranks:
        return
    # What is left on the nodes goes; the script ends as its ranks did.
    if plan.staging is not None:
        yield "muster_stage_end"
    if plan.image.may_be_unpacked:
        yield "muster_remove_unpacked"
    if may_run_again(plan) and hidden_names(plan):
        yield 'rm -f "$muster_passed"  # this was the last run'
    yield 'exit "${muster_interrupted:-$muster_status}"'
