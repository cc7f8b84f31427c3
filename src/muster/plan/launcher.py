"""(request, site, place) → the launcher, and why it and no other. Pure."""

from __future__ import annotations

from muster.errors import RequestError
from muster.facts import ScriptFacts
from muster.job.request import Request
from muster.launchers import default_launcher, launcher_named
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
    launcher = launcher_named(request.launcher)
    refusal = launcher.refusal(engine)
    if refusal is not None:
        raise RequestError(refusal[0], hint=refusal[1])
    if not launcher.in_options:
        return launcher, Reason(launcher.chosen_because)
    return launcher, Reason(request.set_by("launcher"), request.origin("launcher"))


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
