"""(request, site, place) → the launcher, why it and no other, and the PMI that it needs. Pure."""

from __future__ import annotations

from muster.errors import RequestError
from muster.facts import ScriptFacts
from muster.job.request import Request
from muster.launchers import default_launcher, launcher_named, names_for
from muster.launchers.base import Launcher
from muster.model.plan import Engine, Reason
from muster.plan.site_terms import reason_for
from muster.sites.site import Site


def choose_launcher(
    request: Request, site: Site, engine: Engine, script: ScriptFacts | None = None
) -> tuple[Launcher, Reason]:
    """Return the launcher that was asked for, else the site's, else the one that needs nothing else."""
    if request.launcher == "auto":
        return _of_script(script, site, engine) or _of_site(site, engine)
    candidates = [launcher_named(name) for name in names_for(request.launcher)]
    if len(candidates) > 1:
        return _of_several(candidates, request, site, engine)
    refusal = candidates[0].refusal(engine)
    if refusal is not None:
        raise RequestError(refusal[0], hint=refusal[1])
    if not candidates[0].in_options:
        return candidates[0], Reason(candidates[0].chosen_because)
    return candidates[0], Reason(request.set_by("launcher"), request.origin("launcher"))


def _of_script(script: ScriptFacts | None, site: Site, engine: Engine) -> tuple[Launcher, Reason] | None:
    """Return the launcher whose agent serves the store that the script waits for; None: it waits for none."""
    launcher = launcher_named("torchrun")
    allowed = site.profile.launch.allowed
    if script is None or not script.waits_for_store or launcher.refusal(engine) is not None:
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


def _of_several(candidates: list[Launcher], request: Request, site: Site, engine: Engine) -> tuple[Launcher, Reason]:
    """Return the first that the site allows, but the one that needs a PMI where a PMI is named."""
    launch = site.profile.launch
    by_pmi = next((candidate for candidate in candidates if candidate.needs_pmi), None)
    if by_pmi is not None and request.mpi is not None and engine is Engine.SLURM:
        return by_pmi, Reason(by_pmi.chosen_because, "--mpi")
    first, *other_launchers = [candidate for candidate in candidates if candidate.refusal(engine) is None]
    if engine is Engine.HERE or launch.allowed is None or first.site_name in launch.allowed or not other_launchers:
        return first, Reason(first.chosen_because)
    reason = launch.refused.get(first.site_name or "", f"{first.site_name} does not start ranks there")
    return other_launchers[0], reason_for(site, "launch.refused", reason)


def pmi_of(request: Request, site: Site, stack: str | None) -> str:
    """Return what srun is told of MPI for ranks of MPI: without a PMI each rank would be a world of its own."""
    launch = site.profile.launch
    launcher_name = request.launcher.capitalize()
    if request.mpi == "none":
        raise RequestError(
            f"with --mpi none each rank of {launcher_name} would run alone",
            hint="--mpi pmix or --mpi pmi2; where mpirun may be used, omit it, and mpirun starts them",
        )
    pmi = request.mpi or launch.mpi_by_stack.get(stack or "") or launch.mpi
    if pmi is None or pmi == "none":
        raise RequestError(
            f"the profile of {site.name} does not name the PMI by which srun starts MPI ranks, but "
            f"{launcher_name} needs one",
            hint="--mpi pmix or --mpi pmi2, whichever your MPI was built with; srun --mpi=list shows what is there",
        )
    return pmi
