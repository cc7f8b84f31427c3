"""Every published script, carried to every other site: a plan comes out, and nothing of the script is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sites.differences import Script
from sites.profiles import SITES

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


def _pairs(*, every: int) -> Iterator[tuple[str, Script, str]]:
    """Yield each script with other sites: all of them, or every seventh, beginning elsewhere for each script."""
    for number, (site, script) in enumerate(SCRIPTS):
        yield from ((site, script, target) for target in SITES[number % every :: every] if target != site)


@pytest.mark.wide
def test_a_published_script_becomes_a_plan_of_five_other_sites() -> None:
    _check(list(_pairs(every=max(1, len(SITES) // 5))))


@pytest.mark.long
def test_nearly_every_published_script_becomes_a_plan_of_every_other_site() -> None:
    _check(list(_pairs(every=1)))


def _check(pairs: list[tuple[str, Script, str]]) -> None:
    refused = []
    for site, script, target in pairs:
        made = carried(rebuilt(script), target, site)
        if made.refusal is not None:
            refused.append(f"{site} {script.name} → {target}: {made.refusal.message}")
    assert len(pairs) >= 150
    assert len(refused) <= MOST_REFUSED * len(pairs), "\n".join(refused)
