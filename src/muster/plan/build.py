"""(request, site, facts) → plan: each section from those before it, joined once. Pure: no clock, no host, no files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from muster import __version__
from muster.facts import Facts
from muster.job.request import Request
from muster.launchers.base import Launcher
from muster.model.finish import Finish
from muster.model.plan import (
    Condition,
    Directive,
    Engine,
    Flag,
    ImageUse,
    Note,
    Output,
    Plan,
    Reason,
    Rendezvous,
    Staging,
)
from muster.model.words import Word
from muster.plan.asked import Asked, read_request
from muster.plan.command import RankCommand, agent_python, make_command
from muster.plan.environment import Environment, make_environment
from muster.plan.finish import make_finish, make_hang
from muster.plan.launcher import (
    LaunchTerms,
    check_options,
    choose_launcher,
    make_node_prologue,
    make_step,
    settle_terms,
)
from muster.plan.meeting import make_meeting, refuse_unknown_address
from muster.plan.notes import notes_before, notes_of_files, notes_of_nodes, notes_of_size
from muster.plan.python_environment import refuse_missing_python
from muster.plan.script_fit import script_notes
from muster.plan.secret import without
from muster.plan.site_values import node_kind
from muster.plan.size import Size, make_size
from muster.sites.site import Site

if TYPE_CHECKING:
    from muster.policy.rules import Ask


class Sections(msgspec.Struct, frozen=True):
    """All that was decided, section by section."""

    asked: Asked
    facts: Facts
    command: RankCommand
    launcher: Launcher
    launcher_reason: Reason
    size: Size
    launch: LaunchTerms
    image: ImageUse
    finish: Finish | None
    environment: Environment
    staging: Staging | None
    words: tuple[Word, ...]
    """The command; of a sweep, with a gap for each value of a row."""

    step_flags: tuple[Flag, ...]
    meeting: Rendezvous
    node_prologue: tuple[str, ...]
    directives: tuple[Directive, ...]
    notes: tuple[Note, ...]


def make_plan(
    request: Request,
    site: Site,
    facts: Facts,
    *,
    typed: Sequence[str],
    engine: Engine = Engine.SLURM,
    within: bool = False,
    stream: bool = False,
) -> Plan:
    """Return everything that will happen.

    `within`: over an allocation that stands; `stream`: output to the terminal.
    """
    refuse_missing_python(request, facts)
    asked = read_request(request, site, facts, typed=typed, engine=engine, within=within, stream=stream)
    asked = _with_cluster(asked)
    command = make_command(asked, facts)
    launcher, launcher_reason = choose_launcher(asked.request, site, engine, facts.script)
    asked, size = make_size(asked, facts, launcher)
    check_options(asked, facts, launcher)
    launch = settle_terms(asked, facts, size, launcher)
    image = _make_image(asked, facts, launch, launcher)
    finish = make_finish(asked, facts, launcher)
    environment = make_environment(asked, facts, launcher, launch.terms, image, finish)
    notes = [*notes_before(asked, facts, command.news, size, launch, environment)]
    notes += script_notes(facts.script, asked.request, size.shape, launcher, launch.mpi)
    staging, staging_notes = _make_staging(asked, facts, size, image, launcher)
    notes += notes_of_files(asked, facts, image, command.words, staging_notes, gpus=size.shape.gpus_per_node)
    notes += notes_of_size(asked, size, launcher)
    words, environment = _fill_rows(asked, command.words, environment)
    step_flags = make_step(asked, size, launcher, launch.terms, finish)
    meeting = make_meeting(asked.request, launch.terms, size.shape)
    node_prologue = make_node_prologue(asked.request, launch.terms)
    refuse_unknown_address(meeting, step_flags, launch.terms.site)
    directives, ask = _make_header(asked, size, launch, launcher, finish, command.job_name)
    notes += _live_notes(asked, ask, launch.queue.gone)
    notes += [*_sweep_notes(asked, size, words, environment, directives), *notes_of_nodes(asked, facts, size)]
    notes += _notes_of_names(asked, ask)
    return _join(
        Sections(
            asked,
            facts,
            command,
            launcher,
            launcher_reason,
            size,
            launch,
            image,
            finish,
            environment,
            staging,
            words,
            step_flags,
            meeting,
            node_prologue,
            directives,
            tuple(notes),
        )
    )


def _join(made: Sections) -> Plan:
    """Return the plan that the sections are; a header gets the comment that names it."""
    asked, request, facts, launcher = made.asked, made.asked.request, made.facts, made.launcher
    python, terms, is_in_image = made.command.python or "python3", made.launch.terms, made.image.image is not None
    gate, gate_conditions = _make_gate(asked, facts, made.size, python)
    plan = Plan(
        version=__version__,
        site=terms.site,
        engine=asked.engine,
        command=made.words,
        typed=without(asked.typed, request.env),
        working_directory=asked.directory,
        snapshot=request.snapshot and asked.queued,
        job_name=made.command.job_name,
        shape=made.size.shape,
        launcher=launcher.name,
        launcher_reason=made.launcher_reason,
        mpi=made.launch.mpi,
        wireup=request.wireup,
        directives=made.directives,
        step_flags=made.step_flags,
        mpirun_flags=terms.mpirun_flags,
        prelude=made.environment.prelude,
        variables=made.environment.variables,
        conditions=(*_make_conditions(made), *gate_conditions),
        rendezvous=made.meeting,
        image=made.image,
        output=_choose_output(asked),
        label=made.size.of_run.ntasks > 1 and not request.no_label and launcher.labels_lines,
        within=asked.within,
        overlap=asked.within and facts.environment.get("SLURM_STEP_ID", "").isdigit(),
        grace_s=request.grace,
        visibility=request.visibility or terms.visibility,
        node_prologue=made.node_prologue,
        python=python,
        rank_library=None if is_in_image else facts.rank_library,
        texts=facts.texts if made.asked.engine is Engine.SLURM else None,
        ready=facts.ready_folder if request.stacks_ready and not is_in_image else None,
        agent=agent_python(made.command.words, python) if launcher.agent else (),
        gate=gate,
        staging=made.staging,
        hang=make_hang(asked, terms, facts, launcher),
        may_be_alone=_may_be_alone(made),
        finish=made.finish,
        sweep=asked.table,
        pack=made.size.pack,
        cpu_flags=_find_cpu_flags(asked, facts),
        notes=made.notes,
    )
    if not asked.has_header:
        return plan
    from muster.plan.header import add_comment

    return add_comment(plan)


def _with_cluster(asked: Asked) -> Asked:
    """Return the request with what the cluster's word decides. A launch without one does not load what reads it."""
    if asked.site.cluster is None:
        return asked
    from muster.plan.live import with_cluster

    return with_cluster(asked)


def _make_image(asked: Asked, facts: Facts, launch: LaunchTerms, launcher: Launcher) -> ImageUse:
    """Return how the image is used. Most launches have none, and do not load what knows of images."""
    request = asked.request
    if request.image is None and not request.bind and request.engine in {None, "none"}:
        return ImageUse("none", None, Reason("no image was asked for"))
    from muster.plan.image import use_image

    return use_image(request, asked.site, facts, launch.job, launcher, asked.engine)


def _make_staging(
    asked: Asked, facts: Facts, size: Size, image: ImageUse, launcher: Launcher
) -> tuple[Staging | None, list[Note]]:
    request, site, engine = asked.request, asked.site, asked.engine
    is_asked = bool(request.stage_env or request.stage or request.stage_out)
    is_known = engine is Engine.SLURM and any(each.operations_per_s for each in site.profile.filesystems.values())
    if not launcher.starts_ranks or not (is_asked or is_known):
        return None, []
    from muster.plan.staging import make_staging, proposal, staging_notes

    if not is_asked:
        return None, list(proposal(request, site, facts, size.shape))
    staging = make_staging(request, site, facts, size.shape, image, engine, asked.directory)
    return staging, list(staging_notes(request, engine, staging, facts))


def _fill_rows(asked: Asked, words: tuple[str, ...], environment: Environment) -> tuple[tuple[Word, ...], Environment]:
    """Return the command and the environment; of a sweep, with a gap wherever a row has a value."""
    if asked.table is None:
        return words, environment
    from muster.plan.sweep import sweep_command, sweep_variables

    variables = sweep_variables(environment.variables, asked.table)
    return sweep_command(words, asked.request, asked.table), Environment(variables, environment.prelude)


def _make_header(
    asked: Asked, size: Size, launch: LaunchTerms, launcher: Launcher, finish: Finish | None, job_name: str
) -> tuple[tuple[Directive, ...], Ask | None]:
    """Return the header, and the job as the header asks for it; None: Slurm is asked for no allocation."""
    if not asked.has_header:
        return (), None
    from muster.plan.header import make_header

    return make_header(asked, size, launch.terms, launcher, finish, job_name)


def _notes_of_names(asked: Asked, ask: Ask | None) -> Iterator[Note]:
    if ask is not None:
        from muster.plan.header import notes_of_names

        yield from notes_of_names(asked.site, ask)


def _live_notes(asked: Asked, ask: Ask | None, gone: str | None) -> Iterator[Note]:
    if asked.site.cluster is not None and ask is not None:
        from muster.plan.live import live_notes

        kind_name, _ = node_kind(asked.site, replace(asked.request, partition=ask.partition))
        queues = {f"partitions.{name}" for name in (ask.partition, gone)}
        yield from live_notes(asked, ask, queues | {f"nodes.{kind_name}", "memory", "request"})


def _sweep_notes(
    asked: Asked, size: Size, words: Sequence[Word], environment: Environment, directives: Sequence[Directive]
) -> Iterator[Note]:
    if asked.table is not None:
        from muster.plan.sweep import sweep_notes

        yield from sweep_notes(asked.table, size.pack, words, environment.variables, directives)


def _make_conditions(made: Sections) -> tuple[Condition, ...]:
    if made.asked.engine is not Engine.SLURM:
        return ()
    from muster.plan.conditions import make_conditions

    return make_conditions(made.asked.site, made.asked.request, made.size.shape, made.launch.terms, made.launch.job)


def _make_gate(asked: Asked, facts: Facts, size: Size, python: str) -> tuple[tuple[str, ...], tuple[Condition, ...]]:
    """Return the words of the check before the ranks, and what the script tests of the check's program."""
    if not asked.request.check:
        return (), ()
    from muster.plan.gate import expected_at, gate_condition, gate_file, gate_words

    file = gate_file(asked.directory, facts.user)
    words = gate_words(python, file, expected_at(asked.site, size.shape, asked.engine, asked.request))
    return words, (gate_condition(file),) if asked.engine is Engine.SLURM else ()


def _choose_output(asked: Asked) -> Output:
    if asked.stream:
        return Output.STREAM
    if asked.request.output is not None:
        return Output.MOVED
    return Output.RANK_FILES if asked.request.per_rank_files else Output.FILES


def _may_be_alone(made: Sections) -> bool:
    """Return whether it is to be looked at the end whether the ranks have met; agents meet whatever their ranks do."""
    script, launcher = made.facts.script, made.launcher
    several = made.size.of_run.ntasks > 1 and launcher.starts_ranks and not launcher.agent
    return several and made.asked.request.wireup != "dummy" and script is not None and script.may_be_alone


def _find_cpu_flags(asked: Asked, facts: Facts) -> tuple[str, ...]:
    """Return what the nodes' CPUs have to be able to do for the environment; an image brings its own."""
    if facts.venv is None or asked.request.image:
        return ()
    from muster.plan.built_with import cpu_flags_needed

    return cpu_flags_needed(facts.venv)
