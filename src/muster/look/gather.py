"""All that a request makes worth knowing, gathered before the plan, as one value. Reads files, starts nothing."""

from __future__ import annotations

import os
from os import path as paths

from msgspec.structs import replace

from muster.facts import Facts
from muster.images.reference import NO_IMAGE
from muster.job.request import Request
from muster.look.nccl import look_at_nccl
from muster.model.plan import Engine
from muster.plan.nested import file_of_launcher
from muster.plan.python_environment import environment_of
from muster.plan.site_terms import forks_may_crash
from muster.rank.vendors import vendor_here
from muster.sites.site import Site

_LARGEST_SETTINGS_BYTES = 1 << 20


def gather_facts(request: Request, site: Site, facts: Facts, engine: Engine) -> Facts:
    """Return the facts with those of what the request names; what it does not name is not looked at, nor loaded."""
    if request.image == NO_IMAGE:
        request = replace(request, image=None)
    if request.image:
        from muster.look.image_facts import look_at_image

        facts = look_at_image(request, site, facts)
    if request.stage_env or request.stage or request.stage_out:
        from muster.look.stage_facts import look_at_staging

        facts = look_at_staging(request, facts)
    if request.sweep and facts.table is None:
        from muster.look.table import read_table

        facts = replace(facts, table=read_table(request.sweep, facts.working_directory))
    if not request.image:
        from muster.look.script import look_at_script

        folder = paths.join(facts.working_directory, request.chdir) if request.chdir else facts.working_directory
        facts = replace(facts, script=look_at_script(request.command, folder, facts.environment))
    if forks_may_crash(site, request, engine):
        from muster.look.forks import look_at_forks

        facts = look_at_forks(request, facts)
    facts = _look_at_environment(request, facts, engine)
    return look_at_nccl(request, site, _read_launcher_file(request, facts))


def _look_at_environment(request: Request, facts: Facts, engine: Engine) -> Facts:
    """Return the facts with the record of the environment that is named, and where it runs if that is this host."""
    is_venv = request.venv not in {None, "", "none"}
    if engine is Engine.HERE and (request.conda or is_venv):
        environment = environment_of(request, facts)
        is_there = environment is None or paths.exists(paths.join(facts.working_directory, environment.python))
        facts = replace(facts, python_is_missing=not is_there)
    if not is_venv:
        return facts
    from pathlib import Path

    from muster.look.venv_record import read_record

    facts = replace(facts, venv=read_record(Path(facts.working_directory, str(request.venv))))
    if engine is not Engine.HERE:
        return facts

    vendor = vendor_here()
    return replace(facts, machine=os.uname().machine, gpu_kind=vendor.kind if vendor else None)


def _read_launcher_file(request: Request, facts: Facts) -> Facts:
    """Return the facts with the settings of a launcher in the command, which its refusal then says in our words."""
    name = file_of_launcher(request.command) if request.command else None
    if not name:
        return facts
    path = paths.join(facts.working_directory, name)
    try:
        if not paths.isfile(path) or paths.getsize(path) > _LARGEST_SETTINGS_BYTES:
            return facts
        with open(path, encoding="utf-8") as stream:
            return replace(facts, launcher_file=(name, stream.read()))
    except (OSError, ValueError):
        return facts
