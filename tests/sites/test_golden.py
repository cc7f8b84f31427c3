"""What each site makes of the same training, as a person reads it.

Two scripts of each site, at four nodes: with an environment, and in a container. `sizes.txt`: what a site brings into
the same job in three sizes, and with each launcher. `why-SITE.txt`: the explanation of three sites. `refused.txt`: the
jobs that a site refuses. `pytest --update-golden` writes the files anew, prints the difference and fails once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import pytest

from muster.errors import MusterError
from muster.model.plan import Plan
from muster.render.explain import explain, plan_as_text, reason_as_text
from muster.render.script import job_script
from render.outlines import outline, without_digests

from .golden_scripts import GOLDEN, KEPT, MODES, SIZES, Case, cases, made_of, plan_of
from .profiles import SITES

Golden = Callable[[Path, str], None]
_EXPLAINED = ("leonardo", "lumi", "perlmutter")


@pytest.mark.parametrize("case", KEPT, ids=lambda case: f"{case.site}-{case.mode}")
def test_the_script_is_the_golden_one(case: Case, golden: Golden) -> None:
    golden(case.file, outline(job_script(made_of(case))))


@pytest.mark.parametrize("site", _EXPLAINED)
def test_the_explanation_is_the_golden_one(site: str, golden: Golden) -> None:
    golden(GOLDEN / f"why-{site}.txt", without_digests(plan_as_text(made_of(Case(site, "four-nodes", "auto", "venv")))))


def test_each_site_brings_into_each_size_and_launcher_what_is_kept(golden: Golden) -> None:
    golden(GOLDEN / "sizes.txt", "\n".join("\n".join(_of_site(site)) for site in SITES) + "\n")


def _of_site(site: str) -> Iterator[str]:
    of_size = {size: plan_of(Case(site, size, "auto", "venv")) for size in SIZES}
    brought = {size: _brought(made) for size, made in of_size.items() if isinstance(made, Plan)}
    in_all = set.intersection(*map(set, brought.values()))
    yield site
    yield from _named("in all sizes", [text for text in brought["four-nodes"] if text in in_all])
    for size in SIZES:
        yield from _named(size, [text for text in brought.get(size, ["refused"]) if text not in in_all])
    preferred = set(brought["four-nodes"])
    for launcher in dict.fromkeys(case.launcher for case in cases() if case.site == site):
        made = made_of(Case(site, "four-nodes", launcher, "venv"))
        yield from _named(f"four-nodes by {launcher}", [text for text in _brought(made) if text not in preferred])


def _named(name: str, texts: Sequence[str]) -> list[str]:
    return wrap(f"    {name}: {' | '.join(texts)}", 119, subsequent_indent=" " * 8, **_UNBROKEN) if texts else []


_UNBROKEN: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def _brought(made: Plan) -> list[str]:
    """Return the header, and every other decision that the site's profile made."""
    return [
        text.removeprefix("#SBATCH ")
        for section, text, reason in explain(made)
        if (section == "header" and not text.startswith(_OF_MUSTER))
        or (section not in {"condition", "header", "launcher", "rendezvous"} and reason.origin.startswith("site "))
    ]


_OF_MUSTER = ("#SBATCH --comment", "#SBATCH --export", "#SBATCH --job-name", "#SBATCH --no-requeue")


def test_the_refusals_are_the_golden_ones(golden: Golden) -> None:
    refused: dict[str, list[str]] = {}
    for case in cases():
        made = plan_of(case)
        if isinstance(made, MusterError):
            refused.setdefault(f"{made.message}\nhint: {made.hint}\n", []).append(f"    {case}\n")
    golden(GOLDEN / "refused.txt", "".join(f"{sentence}{''.join(names)}\n" for sentence, names in refused.items()))


@pytest.mark.parametrize("site", SITES)
def test_what_a_site_brings_has_a_reason_with_its_document_and_the_day(site: str) -> None:
    for size in SIZES:
        made = plan_of(Case(site, size, "auto", "venv"))
        if isinstance(made, MusterError):
            assert "checked 20" in made.message
            continue
        for section, text, reason in explain(made):
            told = reason_as_text(reason)
            assert reason.text, text
            assert reason.origin, text
            assert "None" not in told, text
            if reason.origin.startswith("site ") and section != "condition":
                assert "checked 20" in told, text


def test_a_part_of_a_node_has_no_masks_and_a_whole_one_has() -> None:
    assert "mask_cpu" not in plan_as_text(made_of(Case("lumi", "one-gpu", "auto", "venv")))
    assert "mask_cpu:0xfe000000000000,0xfe00000000000000" in plan_as_text(
        made_of(Case("lumi", "one-node", "auto", "venv"))
    )


def test_no_golden_file_is_left_over() -> None:
    wanted = {case.file.name for case in KEPT} | {f"why-{site}.txt" for site in _EXPLAINED}

    assert {path.name for path in GOLDEN.iterdir()} == wanted | {"sizes.txt", "refused.txt"}
    assert len(KEPT) == len(SITES) * len(MODES)
