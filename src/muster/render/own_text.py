"""The text of a script below its line of dashes: the parts of a plan, and what each started process runs. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from muster.images import engine_named
from muster.launchers import launcher_named
from muster.launchers.base import DOOR, KEEPER, RANK, Launcher, Part, Prologue
from muster.model.plan import ConditionKind, Engine, Output, Plan, PreludeKind
from muster.model.words import fold
from muster.plan.effect import narrows
from muster.plan.secret import hidden_names
from muster.rank import contract
from muster.render.folder import compose_read, is_read, text_of
from muster.render.image import prologue_end, with_step_flags
from muster.render.parts import compose, kept, part
from muster.slurm.variables import CLASHING, CLASHING_WITHIN

# What another launcher, or an outer job, may have said about ranks that are not these.
_STALE = (
    *contract.PUBLISHED,
    "JAX_COORDINATOR_ADDRESS",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
)


def own_text(plan: Plan) -> str:
    """Return Muster's own text: what every started process runs, and what the job calls, each function once."""
    texts = _texts(plan, launcher_named(plan.launcher))
    if plan.roles:
        from muster.render.roles import texts_of_roles

        plans = {role.name: with_step_flags(role.plan) for role in plan.roles}
        of_roles = {name: list(_texts(each, launcher_named(each.launcher))) for name, each in plans.items()}
        texts = texts_of_roles(list(_texts_of_job(plan)), of_roles)
    return "\n".join(texts)


def _texts_of_job(plan: Plan) -> Iterator[str]:
    """Yield what the job of several roles needs itself: it starts no rank."""
    yield part("stop")
    yield from map(
        part, ("words", "begin", "run_directory", "leave", "size_granted", "go_to", "python", "become", "roles")
    )
    yield _forget(plan)


def _texts(plan: Plan, launcher: Launcher) -> Iterator[str]:
    prologues = launcher.prologues(plan)
    if not prologues:
        yield part("stop")
    else:
        yield kept("muster_common", compose(prologues[0].common))
        yield 'eval "$muster_common"\n'
    yield from filter(None, (text_of(plan, name) for name in parts_of_the_job(plan, launcher)))
    yield _forget(plan)
    if prologues:
        yield "# What every started process runs before the command: POSIX sh, without Python."
    for prologue in prologues:
        yield kept(prologue.variable, prologue_text(plan, prologue), compose(prologue.common))
    if prologues:
        yield ""
    if plan.staging is not None:
        from muster.render.staging import STAGE_END, stage_lines, stage_texts

        is_stage_read = is_read(plan, "stage")
        yield from (
            (text_of(plan, "stage"),) if is_stage_read else stage_texts((*stage_lines(plan, plan.staging), STAGE_END))
        )


def parts_of_the_job(plan: Plan, launcher: Launcher) -> Iterator[Part]:
    """Yield the parts of the script itself, those of the beginning first."""
    is_here = plan.engine is Engine.HERE
    yield "words"
    yield "begin_here" if is_here else "begin"
    if not is_here:
        if plan.output is Output.STREAM:
            yield "run_directory_of_stream"
        else:
            yield from ("run_directory", "leave")
        yield "size_asked" if plan.within else "size_granted"
    yield "go_to_snapshot" if plan.snapshot else "go_to"
    if plan.texts is not None:
        yield "read"
    for name, is_needed in _parts_of_some_jobs(plan, launcher):
        if is_needed:
            yield name
    yield from launcher.parts(plan)
    if plan.finish is not None:  # the script becomes the supervisor of its job
        yield from ("python", "become", "supervise")
    if plan.image.may_be_unpacked:
        yield "unpacked"


def _parts_of_some_jobs(plan: Plan, launcher: Launcher) -> tuple[tuple[Part, bool], ...]:
    return (
        ("rows", plan.pack is not None),
        ("run_moved", plan.output is Output.MOVED),
        ("other_size", any(condition.kind is ConditionKind.SIZE for condition in plan.conditions)),
        ("tell_logs", tells_logs(plan)),
        ("modules", any(prelude.of_modules for prelude in plan.prelude)),
        ("not_there", any(prelude.folder for prelude in plan.prelude)),
        ("conda", any(prelude.kind is PreludeKind.CONDA for prelude in plan.prelude)),
        ("passed", bool(hidden_names(plan))),
        ("attempt", may_run_again(plan) or keeps_attempts(plan)),
        ("expect", launcher.starts_ranks),
        ("count_ends", counts_ends(plan, launcher)),
        ("report_ends", counts_ends(plan, launcher)),
        ("silence", plan.hang is not None),
        ("silence_ends", plan.hang is not None and plan.hang.ends),
        ("port", chooses_port(plan, launcher)),
        ("address", chooses_address(plan, launcher)),
        ("door_key", plan.rendezvous.closed),
        ("definition", engine_named(plan.image.engine).in_step),
    )


def stale_names(plan: Plan) -> list[str]:
    """Return the variables that would tell these ranks of other ones; the plan's own reach its script from outside."""
    planned_names = {variable.name for variable in plan.variables}
    if contract.ROLE in planned_names:
        planned_names.add(contract.ROLE_PORTS)
    return [*_STALE, *(name for name in contract.OF_A_START if name not in planned_names)]


# Muster itself hands these to the script of a run on this machine.
_HANDED_OVER_HERE = {contract.PORT, contract.PORT_CHOSEN}


def _forget(plan: Plan) -> str:
    """Return the function that unsets what would change the step behind its flags."""
    names = list(CLASHING)
    if plan.within:
        # GPUs of a node are in the step's own words, if there are any.
        names += [*CLASHING_WITHIN, *(() if plan.shape.gpus_per_node else ("SLURM_GPUS_PER_NODE",))]
    handed_over = _HANDED_OVER_HERE if plan.engine is Engine.HERE else set()
    names += [name for name in stale_names(plan) if name not in handed_over]
    return (
        "# Unsets variables of outer jobs, launchers and the header that would change the step.\n"
        f"muster_forget() {{\n    {fold(('unset', *names))}\n}}\n"
    )


def prologue_text(plan: Plan, prologue: Prologue) -> str:
    """Return the text that the script keeps for a started process; what runs once on a node follows its identity."""
    known_parts = (*prologue.common, *prologue.identity)
    if prologue.variable != RANK:
        if prologue.variable == KEEPER:
            return text_of(plan, *prologue.last)
        return compose_read(plan, (*known_parts, *prologue.start, *_again(plan, prologue), *prologue.last))
    once = f"{part('cpu_flags')}muster_cpu_has {shlex.join(plan.cpu_flags)}\n" if plan.cpu_flags else ""
    if plan.node_prologue:
        once += f"{once and chr(10)}{part('once_per_node')}muster_node_prologue {shlex.join(plan.node_prologue)}\n"
    texts = (
        compose_read(plan, known_parts),
        once,
        compose_read(plan, (*prologue.start, *_again(plan, prologue))),
        *_before_the_command(plan),
        compose_read(plan, prologue.last),
    )
    return "\n".join(text.rstrip("\n") + "\n" for text in texts if text)


def _again(plan: Plan, prologue: Prologue) -> tuple[Part, ...]:
    """Return what tells the ranks of a job that starts them again which start this is; a keeper is not sh."""
    return ("again_rank",) if plan.finish is not None and prologue.variable not in {KEEPER, DOOR} else ()


def path_of_command(plan: Plan) -> str | None:
    """Return the line by which the command alone gets the PATH that was asked for; None: none was, or of an image."""
    value = next((variable.value for variable in plan.variables if variable.name == "PATH"), None)
    if not isinstance(value, str) or plan.image.image is not None or plan.engine is Engine.HERE:
        return None
    # Not env: it would take the first word of the command for a variable where that holds an equals sign.
    return f"""set -- sh -c 'export PATH="$1"; shift; exec "$@"' sh {shlex.quote(value)} "$@\""""


def _before_the_command(plan: Plan) -> Iterator[str]:
    """Yield what the image and staged copies need, where everything else is known; and the command's own PATH."""
    if (path := path_of_command(plan)) is not None:
        yield f"# The command's own PATH: Muster's text and the launcher's programs are found before it.\n{path}\n"
    yield prologue_end(plan)
    if plan.staging is not None:
        yield compose_read(plan, ("stage_rank",))


def chooses_port(plan: Plan, launcher: Launcher) -> bool:
    """Return whether the script looks for a port: none was asked for, Slurm reserves none, and nobody has looked."""
    meeting = plan.rendezvous
    is_asked = meeting.port is not None or meeting.reserved_ports
    # If the step uses only some nodes of its allocation, it is not known yet which ones.
    standing = is_asked or narrows(plan.step_flags)
    return not standing and plan.engine is Engine.SLURM and launcher.starts_ranks


def chooses_address(plan: Plan, launcher: Launcher) -> bool:
    """Return whether the script looks up the address of rank 0's host: its name alone does not do at this site."""
    return bool(plan.rendezvous.rule) and plan.engine is Engine.SLURM and launcher.starts_ranks


def tells_logs(plan: Plan) -> bool:
    """Return whether the ranks write files of their own wherever the output of the script goes."""
    in_rank_files = plan.output is Output.RANK_FILES and launcher_named(plan.launcher).rank_tasks
    return in_rank_files or (plan.output is Output.FILES and plan.pack is not None)


def keeps_attempts(plan: Plan) -> bool:
    """Return whether the job counts its attempts in its run directory."""
    return plan.finish is not None and plan.output is not Output.STREAM


def may_run_again(plan: Plan) -> bool:
    """Return whether Slurm may put the job back into the queue."""
    return plan.output is not Output.STREAM and any(directive.name == "requeue" for directive in plan.directives)


def counts_ends(plan: Plan, launcher: Launcher) -> bool:
    """Return whether the script counts the ends of what it starts; on this machine Muster's supervisor does."""
    is_told = any("ends" in prologue.last for prologue in launcher.prologues(plan))
    return is_told and plan.engine is Engine.SLURM
