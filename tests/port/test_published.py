"""Every published script, carried to every other site: a plan comes out, and nothing of the script is lost."""

from __future__ import annotations

import pytest

from sites.differences import Script
from sites.profiles import SIXTEEN

from .published import rebuilt, scripts
from .scripts import carried, lacking, read

SCRIPTS = tuple(scripts())
MOST_REFUSED = 0.05


def test_there_are_published_scripts_of_most_sites() -> None:
    assert len(SCRIPTS) >= 30
    assert len({site for site, _ in SCRIPTS}) >= 14


@pytest.mark.parametrize(("site", "script"), SCRIPTS, ids=lambda each: each if isinstance(each, str) else each.name)
def test_everything_of_a_published_script_is_in_the_table(site: str, script: Script) -> None:
    job, draft = read(rebuilt(script))
    assert lacking(job, draft) == [], site


def test_nearly_every_published_script_becomes_a_plan_of_every_other_site() -> None:
    refused = []
    pairs = [(site, script, target) for site, script in SCRIPTS for target in SIXTEEN if target != site]
    for site, script, target in pairs:
        made = carried(rebuilt(script), target, site)
        if made.refusal is not None:
            refused.append(f"{site} {script.name} → {target}: {made.refusal.message}")
    assert len(pairs) >= 400
    assert len(refused) <= MOST_REFUSED * len(pairs), "\n".join(refused)
