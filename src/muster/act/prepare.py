"""What every launch begins with, from the command line or from Python: words → request → plan. Starts no process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.facts import Facts
    from muster.job.option import ValueOrigin
    from muster.job.request import Request
    from muster.model.plan import Engine, Plan


def request_for(
    facts: Facts, values: Mapping[str, Any], origins: Mapping[str, ValueOrigin], command: Sequence[str]
) -> tuple[Facts, Request]:
    """Return what was asked, over what the settings files say, and the facts that it names."""
    from muster.job.home import at_home
    from muster.job.options import request_from
    from muster.job.settings import merge_settings
    from muster.look.probe import settings_files
    from muster.plan.python_environment import chosen

    settings = merge_settings(settings_files(facts), facts.environment)
    request = at_home(chosen(request_from(settings, values, origins, command)), facts.home)
    if request.conda:
        from muster.look.conda import find_conda

        request = find_conda(request, facts)
    return facts, request


def plan_for(
    request: Request,
    facts: Facts,
    typed_words: Sequence[str],
    *,
    engine: Engine | None = None,
    is_within: bool = False,
    stream: bool = False,
) -> Plan:
    """Return the plan under the terms of the site; the engine is Slurm unless another is given."""
    from muster.look.gather import gather_facts
    from muster.model.plan import Engine
    from muster.plan.build import make_plan
    from muster.sites.load import choose_site, overrides_from

    engine = engine or Engine.SLURM
    name = request.site or ("laptop" if engine is Engine.HERE else None)
    site = choose_site(name, facts, overrides_from(request.site_set))
    seen_facts = gather_facts(request, site, facts, engine)
    return make_plan(request, site, seen_facts, typed=typed_words, engine=engine, within=is_within, stream=stream)
