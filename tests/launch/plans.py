"""Plans for tests: as a person would get them, from words."""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from muster.facts import Facts, ScriptFacts
from muster.job.options import parse, request_from
from muster.model.plan import Engine, Plan
from muster.plan.build import make_plan
from muster.sites.load import load

FACTS = Facts(working_directory="/home/ada/project", home="/home/ada", user="ada", python="/home/ada/env/bin/python")

# What `muster submit` finds where a train.py is typed in an active environment: the ranks may each train alone, Muster
# has a Python of its own, and a copy of what the ranks import. `tests/render/test_default_job.py` compares them.
JOB_FACTS = replace(
    FACTS,
    environment={"VIRTUAL_ENV": "/home/ada/env"},
    own_python="/opt/muster/bin/python",
    ready_folder="/opt/muster/ready",
    rank_library="/home/ada/.local/share/muster/rank-library/0",
    texts="/home/ada/.local/share/muster/texts/0",
    script=ScriptFacts(path="train.py", modules=frozenset({"torch"}), may_be_alone=True),
)

# A site is a value: thousands of plans of the tests share the few that Muster brings.
_bundled = cache(load)


def plan(
    *words: str,
    launcher: str = "auto",
    site: str | None = None,
    facts: Facts = FACTS,
    engine: Engine | None = None,
    within: bool = False,
    stream: bool = False,
) -> Plan:
    """The plan of these words; a plain command if there are none."""
    typed = words or ("-N", "2", "-g", "4", "--", "python", "train.py")
    values, origins, command = parse(["--launcher", launcher, *typed])
    request = request_from({}, values, origins, command)
    where = engine or (Engine.HERE if launcher == "local" else Engine.SLURM)
    name = site or ("laptop" if where is Engine.HERE else "generic")
    profile = load(name) if "/" in name else _bundled(name)
    return make_plan(request, profile, facts, typed=typed, engine=where, within=within, stream=stream)
