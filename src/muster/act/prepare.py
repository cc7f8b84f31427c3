"""What every launch begins with, from the command line or from Python: words → request → plan. Starts no process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.errors import RequestError

if TYPE_CHECKING:
    from muster.facts import Facts
    from muster.job.option import ValueOrigin
    from muster.job.request import Request
    from muster.look.venv_record import RunsOn
    from muster.model.plan import Engine, Plan
    from muster.sites.site import Site


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
    from muster.model.plan import Engine
    from muster.plan.build import make_plan
    from muster.sites.load import choose_site, overrides_from

    engine = engine or Engine.SLURM
    if engine is Engine.HERE:
        _need_environment(request, facts)
    name = request.site or ("laptop" if engine is Engine.HERE else None)
    site = choose_site(name, facts, overrides_from(request.site_set))
    seen_facts = _seen(request, site, facts)
    plan = make_plan(request, site, seen_facts, typed=typed_words, engine=engine, within=is_within, stream=stream)
    if site.profile.fabric.kind == "slingshot" and engine is Engine.SLURM and "fork" not in request.workload:
        plan = _told_of_forks(plan, site)
    if request.venv and request.venv != "none":
        plan = _held_against_its_record(plan, request, site, facts.working_directory)
    return plan


def _seen(request: Request, site: Site, facts: Facts) -> Facts:
    """Return the facts with those of what the request names: its image, what it stages, the NCCL of its environment."""
    from pathlib import Path

    from muster.look.nccl import look_at_nccl

    if request.image:
        from muster.look.image_facts import look_at_image

        facts = look_at_image(request, site, facts)
    if request.stage_env or request.stage or request.stage_out:
        from muster.look.stage_facts import look_at_staging

        facts = look_at_staging(request, facts)
    if request.sweep:
        from msgspec.structs import replace

        from muster.look.table import read_table

        facts = replace(facts, table=read_table(request.sweep, facts.working_directory))
    if request.command and not request.image:
        from msgspec.structs import replace

        from muster.look.script import look_at_script

        folder = str(Path(facts.working_directory, request.chdir or ""))
        facts = replace(facts, script=look_at_script(request.command, folder, facts.environment))
    return look_at_nccl(request, site, _with_launcher_file(request, facts))


def _with_launcher_file(request: Request, facts: Facts) -> Facts:
    """Return the facts with the settings of a launcher in the command, which its refusal then says in our words."""
    from pathlib import Path

    from msgspec.structs import replace

    from muster.plan.nested import file_of_launcher

    name = file_of_launcher(request.command) if request.command else None
    path = Path(facts.working_directory, name) if name else None
    try:
        if path is None or not path.is_file() or path.stat().st_size > _LARGEST_SETTINGS_BYTES:
            return facts
        return replace(facts, launcher_file=(str(name), path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return facts


_LARGEST_SETTINGS_BYTES = 1 << 20


def _held_against_its_record(plan: Plan, request: Request, site: Site, typed_in: str) -> Plan:
    """Compare what the record of a virtual environment says with where it will run, and note what does not hold."""
    from pathlib import Path

    from msgspec.structs import replace

    from muster.look.venv_record import cpu_flags_needed, differences
    from muster.model.plan import Note

    venv = Path(typed_in, request.venv or "")
    new_notes = differences(venv, _nodes_of(request, site, plan))
    return replace(
        plan,
        notes=(*plan.notes, *(Note(text, warning=True) for text in new_notes)),
        cpu_flags=() if request.image else cpu_flags_needed(venv),
    )


def _nodes_of(request: Request, site: Site, plan: Plan) -> RunsOn:
    """Return what is known of the nodes of a plan: by the profile, and on this machine by a look."""
    from muster.look.venv_record import RunsOn
    from muster.model.plan import Engine
    from muster.plan.site_terms import node_kind

    of_site = () if request.image else site.profile.modules.load or ()
    modules, gpus = (*of_site, *request.module), bool(plan.shape.gpus_per_node)
    if plan.engine is Engine.HERE:
        import os

        from muster.look.image_facts import gpu_kind_here

        return RunsOn(modules, os.uname().machine, gpu_kind_here(), gpus)
    node = node_kind(site, request)[1]
    return RunsOn(modules, node.arch, node.gpu_kind, gpus)


def _told_of_forks(plan: Plan, site: Site) -> Plan:
    """Return where the script forks its data loaders, if the network's card must not meet a forked process."""
    from pathlib import Path

    from msgspec.structs import replace

    from muster.look.forks import fork_warning
    from muster.model.plan import Note
    from muster.sites.when import workloads_of

    script = next((str(word) for word in plan.command if str(word).endswith(".py")), None)
    warning = script and fork_warning(Path(plan.working_directory, script), workloads_of(site.profile))
    return replace(plan, notes=(*plan.notes, Note(warning, warning=True))) if warning else plan


def _need_environment(request: Request, facts: Facts) -> None:
    """Refuse an environment that is not there: on this machine another Python would run and report nothing."""
    from pathlib import Path

    from muster.plan.python_environment import environment_of

    environment_name = request.conda or (request.venv and request.venv != "none")
    environment = environment_of(request, facts) if environment_name else None
    if environment is not None and not Path(facts.working_directory, environment.python).exists():
        raise RequestError(f"there is no Python in {environment.folder}", hint="name the folder that holds bin/python")
