"""What every launch begins with: words → request → plan. Slurm is asked once an hour, and nothing else starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.facts import Facts
    from muster.job.option import ValueOrigin
    from muster.job.request import Request
    from muster.model.plan import Engine, Plan
    from muster.slurm.cluster_facts import ClusterFacts


def request_for(
    facts: Facts, values: Mapping[str, Any], origins: Mapping[str, ValueOrigin], command: Sequence[str]
) -> tuple[Facts, Request]:
    """Return what was asked, over what the settings files say, and the facts that it names."""
    from muster.job.options import request_from
    from muster.job.settings import merge_settings
    from muster.look.probe import settings_files

    settings = merge_settings(settings_files(facts), facts.environment)
    request = _settled(request_from(settings, values, origins, command), facts)
    if request.roles:
        from msgspec.structs import replace

        request = replace(request, roles=tuple(_settled(role, facts) for role in request.roles))
    return facts, request


def _settled(request: Request, facts: Facts) -> Request:
    """Return the request with one environment, whose place is known."""
    from muster.job.home import at_home
    from muster.plan.python_environment import chosen

    request = at_home(chosen(request), facts.home)
    if not request.conda:
        return request
    from muster.look.conda import find_conda

    return find_conda(request, facts)


def plan_for(
    request: Request,
    facts: Facts,
    typed_words: Sequence[str],
    *,
    engine: Engine | None = None,
    is_within: bool = False,
    stream: bool = False,
    starts_now: bool = False,
) -> Plan:
    """Return the plan under the terms of the site; the engine is Slurm unless another is given.

    `starts_now`: the job is queued next, so Slurm is asked whether its partitions are still up.
    """
    from msgspec.structs import replace

    from muster.errors import RequestError
    from muster.look.gather import gather_facts
    from muster.model.plan import Engine, Note
    from muster.plan.build import make_plan
    from muster.sites.load import choose_site, overrides_from

    engine = engine or Engine.SLURM
    name = request.site or ("laptop" if engine is Engine.HERE else None)
    overrides = overrides_from(request.site_set)

    def make(cluster: ClusterFacts | None) -> Plan:
        site = choose_site(name, facts, overrides, cluster)
        own_facts = facts
        if engine is Engine.SLURM and site.is_here:
            from muster.act.texts import place_texts

            own_facts = replace(facts, texts=place_texts(facts))
        if request.roles:
            from muster.plan.roles import make_job_of_roles

            return make_job_of_roles(
                request, site, lambda role: gather_facts(role, site, own_facts, engine), typed_words
            )
        seen_facts = gather_facts(request, site, own_facts, engine)
        return make_plan(request, site, seen_facts, typed=typed_words, engine=engine, within=is_within, stream=stream)

    if engine is Engine.HERE or is_within:
        return make(None)
    from muster.act.kept_cluster import know_cluster, with_states_now

    known = know_cluster(facts, fresh=request.fresh)
    if starts_now:
        known = with_states_now(known, facts)
    try:
        plan = make(known.facts)
    except RequestError as error:
        if not (error.refusals and known.is_kept and known.facts is not None):
            raise
        # A refusal rests on what Slurm says now, and not on what it said up to an hour ago.
        known = know_cluster(facts, fresh=True)
        plan = make(known.facts)
    if not known.silence:
        return plan
    text = f"Slurm did not say what this cluster is ({known.silence}): the plan rests on the profile of {plan.site}"
    return replace(plan, notes=(*plan.notes, Note(text)))
