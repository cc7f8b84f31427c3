"""The launcher, why it and no other, and the terms under which it starts the ranks of this site. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

import msgspec

from muster.errors import Refusal, RequestError, refused
from muster.facts import Facts, ScriptFacts
from muster.job.request import Request
from muster.launchers import default_launcher, launcher_named
from muster.launchers.base import Launcher, Starter
from muster.model.finish import Finish
from muster.model.plan import Engine, Flag, Reason
from muster.model.words import Fragment
from muster.plan.asked import Asked
from muster.plan.effect import flags_within, refuse_idle_options
from muster.plan.script_fit import wants_mpi
from muster.plan.site_queue import queue_of
from muster.plan.site_terms import situation_of, terms_of
from muster.plan.site_values import reason_for
from muster.plan.size import Size
from muster.plan.terms import Terms
from muster.policy.queues import Choice
from muster.sites.site import Site
from muster.sites.when import Situation
from muster.slurm.flags import SlurmFlag, whole_step_flags


class LaunchTerms(msgspec.Struct, frozen=True):
    """What holds for this launch at its site."""

    job: Situation
    queue: Choice
    terms: Terms
    mpi: str | None
    """What srun is told of MPI."""


def choose_launcher(
    request: Request, site: Site, engine: Engine, script: ScriptFacts | None = None
) -> tuple[Launcher, Reason]:
    """Return the launcher that was asked for, else the site's, else the one that needs nothing else."""
    if request.launcher == "auto":
        return _of_script(script, site, engine) or _of_site(site, engine)
    launcher = launcher_named(request.launcher)
    refusal = launcher.refusal(engine)
    if refusal is not None:
        raise RequestError(refusal[0], hint=refusal[1])
    if not launcher.in_options:
        return launcher, Reason(launcher.chosen_because)
    return launcher, Reason(request.set_by("launcher"), request.origin("launcher"))


def _of_script(script: ScriptFacts | None, site: Site, engine: Engine) -> tuple[Launcher, Reason] | None:
    """Return the launcher whose agent serves the store that the script waits for; None: it waits for none."""
    if script is None or not script.waits_for_store:
        return None
    launcher, allowed = launcher_named("torchrun"), site.profile.launch.allowed
    if launcher.refusal(engine) is not None:
        return None
    if engine is not Engine.HERE and allowed is not None and launcher.site_name not in allowed:
        return None
    text = "the script waits for a store at MASTER_ADDR:MASTER_PORT, which only torchrun's agent serves"
    return launcher, Reason(text, script.path)


def _of_site(site: Site, engine: Engine) -> tuple[Launcher, Reason]:
    preferred = site.profile.launch.preferred
    default = launcher_named(default_launcher(engine))
    if engine is Engine.HERE:
        return default, Reason(default.chosen_because)
    launcher = default if preferred is None else launcher_named(preferred)
    return launcher, reason_for(site, "launch.preferred", default.chosen_because)


def check_options(asked: Asked, facts: Facts, launcher: Launcher) -> None:
    """Refuse an option that would change nothing where, or by what, the ranks start."""
    _check_signal(asked.flags, launcher)
    refuse_idle_options(asked, launcher, facts.environment)


def settle_terms(asked: Asked, facts: Facts, size: Size, launcher: Launcher) -> LaunchTerms:
    """Return what the site lays down for a launch of this size."""
    request, site = asked.request, asked.site
    job = situation_of(site, request, size.shape, launcher, nccl=facts.nccl)
    queue = queue_of(asked, job)
    terms = terms_of(site, request, size.shape, job, queue)
    if size.pack is not None:
        from muster.plan.pack import packed_terms

        terms = packed_terms(terms, size.pack)
    by_mpi = launcher.rank_tasks and wants_mpi(facts.script)
    mpi = request.mpi or (terms.mpi if by_mpi else None)
    return LaunchTerms(job, queue, terms, mpi)


def make_step(asked: Asked, size: Size, launcher: Launcher, terms: Terms, finish: Finish | None) -> tuple[Flag, ...]:
    """Return the flags of the step: the site's, the user's, and those by which it keeps to its nodes."""
    flags = [*_step_flags(asked.request, terms)]
    if finish is not None and finish.spares and launcher.starter(asked.engine) is Starter.STEP:
        flags.append(Flag(Fragment('"${muster_place[@]}"'), Reason("the nodes that live, without the spare ones")))
    if size.pack is not None:
        from muster.plan.pack import pack_flags

        flags += pack_flags(size.pack)
    return (*flags, *(flags_within(asked.request, launcher) if asked.within else ()))


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


def make_node_prologue(request: Request, terms: Terms) -> tuple[str, ...]:
    """Return the command that runs once on every node before its ranks."""
    if request.node_prologue is None:
        return terms.node_prologue
    try:
        return tuple(shlex.split(request.node_prologue))
    except ValueError as error:
        raise RequestError(f"--node-prologue cannot be split into words: {error}", hint="close the quotes") from None


def _check_signal(flags: Iterable[SlurmFlag], launcher: Launcher) -> None:
    """Refuse --signal where the ranks are not tasks of a step: Slurm sends it to those, under srun alone."""
    for flag in flags:
        if flag.name == "signal" and launcher.keeps_signals:
            message = f"{flag.origin}: under {launcher.name} the signal reaches {launcher.keeps_signals}, but no rank"
            hint = "--save-before TIME signals the ranks under every launcher; or --launcher srun"
            raise refused((Refusal("signal", message, hint, accepted={"launcher": "srun"}), ""))
