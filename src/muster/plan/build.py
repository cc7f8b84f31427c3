"""(request, site, facts) → plan. Pure: no clock, no host, no files, no chance."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from muster import __version__
from muster.errors import Refusal, RequestError, refused
from muster.facts import Facts
from muster.images.reference import NO_IMAGE
from muster.job.home import at_home
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
    Shape,
    Staging,
    Variable,
)
from muster.model.words import Word
from muster.plan.command import agent_python, pin_python, resolve_command
from muster.plan.conditions import make_conditions
from muster.plan.effect import flags_within, narrows, refuse_idle_options, refuse_wireup
from muster.plan.environment import brings_torch, left_over, make_prelude, make_variables, stays_behind
from muster.plan.finish import check_limit, finish_variables, make_finish, spare_flags
from muster.plan.flags import absorb_flags
from muster.plan.hang import make_hang
from muster.plan.launcher import choose_launcher
from muster.plan.pack import pack_flags, packed, packed_terms
from muster.plan.python_environment import as_variables, environment_of, refuse_missing_python, venv_in_image
from muster.plan.script_fit import jax_variables, script_notes, wants_mpi
from muster.plan.secret import without
from muster.plan.shape import NodeShape, make_shape
from muster.plan.site_terms import forks_may_crash, node_shape, site_notes, situation_of, terms_of
from muster.plan.sweep import sweep_command, sweep_notes, sweep_variables, table_of
from muster.plan.terms import Terms
from muster.rank import contract
from muster.sites.site import Site
from muster.sites.when import Situation
from muster.slurm.flags import SlurmFlag, gpus_in_gres, unknown_flags, whole_step_flags


def make_plan(
    asked: Request,
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
    refuse_missing_python(asked, facts)
    queued, no_image = engine is Engine.SLURM and not (within or stream), asked.image == NO_IMAGE
    table = table_of(asked, facts.table, queued=queued)
    request, more_flags = absorb_flags(at_home(replace(asked, image=None) if no_image else asked, facts.home))
    python = _python(request, facts)
    command, news = resolve_command(request.command, python, nodes=request.nodes, launcher_file=facts.launcher_file)
    if not _python_is_made_in_the_job(request, site, facts):
        command, pinned = pin_python(command, python)
        news = pinned or news
    node = node_shape(site, request) if engine is Engine.SLURM else NodeShape(gpus=facts.gpus, origin="this machine")
    launcher, launcher_reason = choose_launcher(request, site, engine, facts.script)
    request, pack = packed(request, node, launcher)
    shape = make_shape(request, node, gpus_asked=gpus_in_gres(request.gres))
    _check_signal(more_flags, launcher)
    refuse_idle_options(request, more_flags, launcher, facts.environment, engine, within=within, stream=stream)
    job = situation_of(site, request, shape, launcher, nccl=facts.nccl)
    terms = packed_terms(terms_of(site, request, shape, job), pack)
    mpi = request.mpi or terms.mpi
    if mpi is None and launcher.rank_tasks and wants_mpi(facts.script):
        mpi = site.profile.launch.mpi
    refuse_wireup(request, launcher, mpi)
    image = _image(request, site, facts, job, launcher, engine)
    # Where no script stands before the ranks; an environment that is active is in their PATH already.
    here = engine is Engine.HERE and bool(request.conda or request.venv)
    own = as_variables(environment_of(request, facts), facts) if here else ()
    directory = _working_directory(request, facts)
    finish = _finish(request, site, launcher, engine, directory, within=within, stream=stream)
    own = (*jax_variables(facts.script, engine), *agent_variables(request, launcher), *finish_variables(finish), *own)
    variables = (*_kept_outside(image), *launcher.variables(), *own, *make_variables(request, terms, facts))
    _check_places(image, directory, variables)
    notes = [*([Note(news)] if news else []), *site_notes(site, request, shape, job)]
    notes += [
        *(Note(sentence, warning=True) for sentence in unknown_flags(more_flags)),
        *left_over(request, facts),
        *(stays_behind(request, facts, variables) if queued else ()),
    ]
    notes += script_notes(facts.script, request, shape, launcher, mpi)
    if request.snapshot and not queued:
        notes.append(Note("--snapshot is for jobs that wait: this one starts now, from the files as they are"))
    staging, more = (
        _staging(request, site, facts, shape, image, engine, directory) if launcher.starts_ranks else (None, [])
    )
    notes += more + _image_notes(image, facts, (*command, *request.env), gpus=shape.gpus_per_node)
    has_header = engine is Engine.SLURM and not within
    record_notes = _record_notes(request, site, facts, shape, engine)
    gate, gate_conditions = _gate(request, site, facts, shape, engine, python) if request.check else ((), ())
    plan = Plan(
        version=__version__,
        site=terms.site,
        engine=engine,
        command=command if table is None else sweep_command(command, request, table),
        typed=without(typed, request.env),
        working_directory=directory,
        snapshot=request.snapshot and queued,
        job_name=request.job_name or _name_of(command),
        shape=shape,
        launcher=launcher.name,
        launcher_reason=launcher_reason,
        mpi=mpi,
        wireup=terms.wireup,
        directives=(),
        step_flags=(
            *_step_flags(request, terms),
            *spare_flags(finish, launcher, engine),
            *pack_flags(pack),
            *(flags_within(request, launcher) if within else ()),
        ),
        mpirun_flags=terms.mpirun_flags,
        prelude=make_prelude(request, site, terms, facts, image),
        variables=sweep_variables(_last_of_each(variables), table),
        conditions=(
            *(make_conditions(site, request, shape, terms, job) if engine is Engine.SLURM else ()),
            *gate_conditions,
        ),
        rendezvous=_rendezvous(request, terms, shape),
        image=image,
        output=_output(request, stream=stream),
        label=(shape if pack is None else pack.shape).ntasks > 1 and not request.no_label and launcher.labels_lines,
        within=within,
        overlap=within and facts.environment.get("SLURM_STEP_ID", "").isdigit(),
        grace_s=request.grace,
        visibility=request.visibility or terms.visibility,
        node_prologue=_node_prologue(request, terms),
        python=python or "python3",
        rank_library=None if image.image else facts.rank_library,
        ready=facts.ready_folder if request.stacks_ready and not image.image else None,
        agent=agent_python(command, python or "python3") if launcher.agent else (),
        gate=gate,
        staging=staging,
        hang=make_hang(request, terms, facts, queued=queued) if _may_hang(launcher, engine) and not pack else None,
        may_be_alone=_may_be_alone(request, facts, shape if pack is None else pack.shape, launcher),
        finish=finish,
        sweep=table,
        pack=pack,
        cpu_flags=_cpu_flags(request, facts),
        notes=(
            *notes,
            *(Note(text) for text in site.notes),
            *_notes(request, site, shape, launcher, node, engine),
            *(() if has_header else record_notes),
        ),
    )
    _refuse_unknown_address(plan)
    if has_header:
        from muster.plan.header import make_directives
        from muster.plan.limits import check_limits

        plan = replace(plan, directives=make_directives(request, terms, plan, more_flags))
        check_limit(request, finish, plan.directives)
        held = shape if finish is None else replace(shape, nodes=shape.nodes + finish.spares)
        check_limits(site, request, held, launcher.site_name, plan.directives)
        plan = replace(
            plan, directives=(*plan.directives, _comment(plan)), notes=(*plan.notes, *sweep_notes(plan), *record_notes)
        )
    return plan


def _record_notes(request: Request, site: Site, facts: Facts, shape: Shape, engine: Engine) -> list[Note]:
    """Return what the script and the record of its environment say against the nodes of this site."""
    notes: list[Note] = []
    if facts.forking_loaders and forks_may_crash(site, request, engine):
        from muster.plan.fork_notes import fork_notes

        notes += fork_notes(site, facts)
    if facts.venv is not None:
        from muster.plan.built_with import nodes_of, venv_notes

        notes += venv_notes(facts.venv, nodes_of(request, site, facts, shape, engine))
    return notes


def _cpu_flags(request: Request, facts: Facts) -> tuple[str, ...]:
    """Return what the nodes' CPUs have to be able to do for the environment; an image brings its own."""
    if facts.venv is None or request.image:
        return ()
    from muster.plan.built_with import cpu_flags_needed

    return cpu_flags_needed(facts.venv)


def _comment(plan: Plan) -> Directive:
    """Return the directive by which the job of this plan is known in the queue."""
    from muster.model.digest import digest_of

    reason = Reason("Muster finds the job by this, even if sbatch got no answer")
    return Directive("comment", f"muster:{digest_of(plan)}", reason)


def _check_signal(flags: Iterable[SlurmFlag], launcher: Launcher) -> None:
    """Refuse --signal where the ranks are not tasks of a step: Slurm sends it to those, under srun alone."""
    for name, _, origin, _ in flags:
        if name == "signal" and launcher.keeps_signals:
            message = f"{origin}: under {launcher.name} the signal reaches {launcher.keeps_signals}, but no rank"
            hint = "--save-before TIME signals the ranks under every launcher; or --launcher srun"
            raise refused((Refusal("signal", message, hint, accepted={"launcher": "srun"}), ""))


def _may_hang(launcher: Launcher, engine: Engine) -> bool:
    return launcher.starts_ranks and engine is Engine.SLURM


def _may_be_alone(request: Request, facts: Facts, shape: Shape, launcher: Launcher) -> bool:
    """Return whether it is to be looked at the end whether the ranks have met; agents meet whatever their ranks do."""
    several = shape.ntasks > 1 and launcher.starts_ranks and not launcher.agent
    return several and request.wireup != "dummy" and facts.script is not None and facts.script.may_be_alone


def _image(request: Request, site: Site, facts: Facts, job: Situation, launcher: Launcher, engine: Engine) -> ImageUse:
    """Return how the image is used. Most launches have none, and do not load what knows of images."""
    if request.image is None and not request.bind and request.engine in {None, "none"}:
        return ImageUse("none", None, Reason("no image was asked for"))
    from muster.plan.image import use_image

    return use_image(request, site, facts, job, launcher, engine)


def _kept_outside(image: ImageUse) -> Iterable[Variable]:
    if image.image is None:
        return ()
    from muster.plan.image import keep_host_outside

    return keep_host_outside(image)


def _staging(
    request: Request, site: Site, facts: Facts, shape: Shape, image: ImageUse, engine: Engine, directory: str
) -> tuple[Staging | None, list[Note]]:
    asked = request.stage_env or request.stage or request.stage_out
    known = engine is Engine.SLURM and any(each.operations_per_s for each in site.profile.filesystems.values())
    if not (asked or known):
        return None, []
    from muster.plan.staging import make_staging, proposal, staging_notes

    if not asked:
        return None, list(proposal(request, site, facts, shape))
    staging = make_staging(request, site, facts, shape, image, engine, directory)
    return staging, list(staging_notes(request, engine, staging, facts))


def _image_notes(image: ImageUse, facts: Facts, words: Sequence[Word], *, gpus: int) -> list[Note]:
    if image.image is None:
        return []
    from muster.plan.image_paths import image_notes

    return list(image_notes(image, facts.image, words, gpus=gpus))


def _gate(
    request: Request, site: Site, facts: Facts, shape: Shape, engine: Engine, python: str | None
) -> tuple[tuple[str, ...], tuple[Condition, ...]]:
    """Return the words of the check before the ranks, and what the script tests of the check's program."""
    from muster.plan.gate import expected_at, gate_condition, gate_file, gate_words

    file = gate_file(_working_directory(request, facts), facts.user)
    words = gate_words(python or "python3", file, expected_at(site, shape, engine))
    return words, (gate_condition(file),) if engine is Engine.SLURM else ()


def _check_places(image: ImageUse, directory: str, variables: Sequence[Variable]) -> None:
    if image.image is not None:
        from muster.plan.image_paths import check_places

        check_places(image, directory, variables)


def _python(request: Request, facts: Facts) -> str | None:
    """Return the interpreter of the environment that the ranks will have."""
    if request.image:
        venv = venv_in_image(request, facts)
        return f"{venv}/bin/python" if venv else None
    asked = request.conda or request.venv
    environment = environment_of(request, facts) if asked else None
    return environment.python if environment else facts.python


def _python_is_made_in_the_job(request: Request, site: Site, facts: Facts) -> bool:
    """Return whether the script itself brings the interpreter: a virtual environment, modules or an image."""
    return environment_of(request, facts) is not None or bool(
        request.module
        or request.image
        or site.profile.modules.load
        or brings_torch(request, site)
        or _brings_software(request, site)
    )


def _brings_software(request: Request, site: Site) -> bool:
    """Return whether a flag of the step brings a software stack, with a Python of its own."""
    flags = (flag.partition("=")[0] for flag in (*request.srun, *request.sbatch))
    return any(flag in site.profile.launch.stack_by_flag for flag in flags)


def _last_of_each(variables: Iterable[Variable]) -> tuple[Variable, ...]:
    """Return one variable of each name: the last one holds."""
    return tuple({each.name: each for each in variables}.values())


def _name_of(command: Sequence[str]) -> str:
    """Return the script's name, that of `python -m`'s module, else the program's."""
    has_python = False
    for word, next_word in zip(command, (*command[1:], "")):
        if word.endswith((".py", ".sh")):
            return PurePosixPath(word).stem
        if has_python and word == "-m" and next_word:
            return next_word
        has_python = has_python or PurePosixPath(word).name.startswith("python")
    return PurePosixPath(command[0]).name


# Flags of the agents that Muster gives itself: another value would be another job.
_OWN_AGENT_FLAGS = frozenset(
    (
        *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "standalone"),
        *("node-rank", "master-addr", "master-port", "local-addr", "log-dir", "redirects", "tee", "no-python"),
        *("module", "run-path"),
    )
)


def agent_variables(request: Request, launcher: Launcher) -> tuple[Variable, ...]:
    """Return the user's flags for the agents, which stand behind Muster's own."""
    flags = request.torchrun if launcher.agent else ()
    for flag in flags:
        name = flag.lstrip("-").partition("=")[0].replace("_", "-")
        if not flag.startswith("--") or name in _OWN_AGENT_FLAGS:
            raise RequestError(
                f"--torchrun={flag}: Muster sets it, or it is not a flag", hint="--torchrun=--max-restarts=3"
            )
    if not flags:
        return ()
    # Each ends in a line break: the shell takes them apart there.
    value = "".join(f"{flag}\n" for flag in flags)
    return (Variable(contract.AGENT_FLAGS, value, Reason(request.set_by("torchrun"), request.origin("torchrun"))),)


def _finish(
    request: Request, site: Site, launcher: Launcher, engine: Engine, directory: str, *, within: bool, stream: bool
) -> Finish | None:
    """Return how the job goes on; where jobs cannot queue any, its links are queued ahead."""
    finish = make_finish(request, launcher, engine, directory, is_within=within, queued=not (within or stream))
    if finish is None or not finish.links or site.profile.launch.queues_from_jobs is not False:
        return finish
    return replace(finish, links_ahead=True)


def _working_directory(request: Request, facts: Facts) -> str:
    if request.chdir is None:
        return facts.working_directory
    return str(PurePosixPath(facts.working_directory) / request.chdir)


def _step_flags(request: Request, terms: Terms) -> tuple[Flag, ...]:
    flags = list(terms.step_flags)
    if request.distribution:
        how = request.distribution
        if "arbitrary" in how:
            raise RequestError(
                "with --distribution=arbitrary the host of rank 0 is not known", hint="use block, cyclic or plane=N"
            )
        # Not in the header: 24.11 and 26.05 refuse plane=N for a job of nodes and tasks per node.
        flags.append(
            Flag(f"--distribution={how}", Reason(request.set_by("distribution"), request.origin("distribution")))
        )
    flags += [Flag(flag, Reason("set by you", f"--srun={flag}")) for flag in whole_step_flags(request.srun)]
    return tuple(flags)


def _refuse_unknown_address(plan: Plan) -> None:
    """Refuse a name that is not rank 0's: where a name is not enough, the allocation's first node looks it up."""
    if plan.rendezvous.rule and narrows(plan.step_flags):
        raise RequestError(
            f"the site {plan.site} needs the address of rank 0, but its node in the allocation is not known yet",
            hint="give --master-addr HOST, or ask for nodes with -N alone",
        )


def _rendezvous(request: Request, terms: Terms, shape: Shape) -> Rendezvous:
    address = request.master_addr
    if address is not None:
        if ":" in address and address.count(":") == 1:
            raise RequestError(
                f"--master-addr {address} holds a port",
                hint=f"--master-addr {address.partition(':')[0]} --master-port {address.partition(':')[2]}",
            )
        if shape.nodes > 1 and (address.startswith("127.") or address in {"localhost", "::1"}):
            raise RequestError(
                f"--master-addr {address} means another host on every node, but there are {shape.nodes} nodes",
                hint="omit it, or name the first host",
            )
    low, high = request.port_range or (terms.ports.low, terms.ports.high)
    if request.master_port is not None:
        port_reason = Reason(request.set_by("master_port"), request.origin("master_port"))
    elif request.port_range is not None:
        port_reason = Reason("set by you: one of this range", request.origin("port_range"))
    else:
        port_reason = terms.ports.reason
    return Rendezvous(
        address=address,
        host_suffix="" if address else terms.host_suffix,
        rule=() if address else terms.address_rule,
        port=request.master_port,
        port_low=low,
        port_high=high,
        reserved_ports=terms.ports.reserved and request.master_port is None and request.port_range is None,
        address_reason=Reason(request.set_by("master_addr"), request.origin("master_addr"))
        if address
        else terms.address_reason,
        port_reason=port_reason,
        range_asked=request.port_range is not None,
    )


def _output(request: Request, *, stream: bool) -> Output:
    if stream:
        return Output.STREAM
    if request.output is not None:
        return Output.MOVED
    return Output.RANK_FILES if request.per_rank_files else Output.FILES


def _node_prologue(request: Request, terms: Terms) -> tuple[str, ...]:
    if request.node_prologue is None:
        return terms.node_prologue
    try:
        return tuple(shlex.split(request.node_prologue))
    except ValueError as error:
        raise RequestError(f"--node-prologue cannot be split into words: {error}", hint="close the quotes") from None


def _notes(
    request: Request, site: Site, shape: Shape, launcher: Launcher, node: NodeShape, engine: Engine
) -> list[Note]:
    notes = []
    if engine is Engine.HERE and shape.nodes > 1:
        ranks = f"{shape.ntasks_per_node} rank{'s' * (shape.ntasks_per_node != 1)}"
        notes.append(Note(f"simulated: {shape.nodes} nodes of {ranks} each, all of them on this machine"))
    if launcher.many_nodes_note and shape.nodes > 1:
        notes.append(Note(launcher.many_nodes_note))
    if node.gpus and not shape.gpus_per_node and not request.given("gpus_per_node"):
        notes.append(
            Note(f"no GPU is asked for, but a node here has {node.gpus}: -g {node.gpus}, or -g 0", warning=True)
        )
    if request.visibility == "one":
        notes.append(
            Note("--visibility one: a script that says set_device(LOCAL_RANK) fails on every rank but 0", warning=True)
        )
    if request.trial and not any(rule.when is not None and rule.when.trial for rule in site.profile.queue_rules):
        notes.append(Note(f"--trial: the profile of {site.name} names no queue for trials", warning=True))
    if request.time is not None and request.time.seconds == 0:
        notes.append(Note("a time limit of 0 means unlimited to Slurm; many sites refuse it", warning=True))
    return notes
