"""A rehearsal can say no: broken scripts and right ones, rehearsed by an ordinary user of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from muster.runner import checked, run
from plugins.real_user import RealUser, real_user
from rehearse.scripts import HELPERS, Script, draw

pytestmark = pytest.mark.lab

SITES = ("generic", "lumi", "clariden", "leonardo", "horeka")


@pytest.fixture(scope="module")
def user() -> Iterator[RealUser]:
    with real_user() as made:
        yield made


def rehearsed(user: RealUser, name: str, site: str, scripts: list[Script]) -> list[tuple[Script, int, str]]:
    folder = user.home / f"work-{name}/project"
    folder.mkdir(parents=True)
    user.owns(folder.parent)
    many = user.home / "rehearse_many.py"
    many.write_text(Path(__file__).with_name("rehearse_many.py").read_text())
    asked = json.dumps([{**asdict(script), "helpers": HELPERS} for script in scripts])
    words = user.argv(user.python, str(many), site, str(folder))
    done = checked(run(words, env=user.environment(), cwd=user.home, stdin=asked, timeout_s=3000))
    return [(script, each["status"], each["said"]) for script, each in zip(scripts, json.loads(done.stdout))]


def misjudged(answers: list[tuple[Script, int, str]]) -> list[str]:
    """Return the rehearsals that passed a broken script, or not in its words; and those that refused a right one."""
    wrong = []
    for script, status, said in answers:
        if script.breaks:
            own = said.partition("shown on a lab")[2] or said
            ok = status != 0 and script.says in own and "bug in Muster" not in said
        else:
            ok = status == 0 and "WRONG" not in said
            ok = ok and (script.kind != "insists" or "insists on a GPU" in said)
        if not ok:
            wrong.append(f"=== {script.kind}, status {status}\n{script.text}\n--- {script.argv}\n{said}")
    return wrong


def test_a_sample_of_scripts_is_judged_right(user: RealUser) -> None:
    drawn = [*list(draw(7, 20, broken=True))[::6], *list(draw(7, 20, broken=False))[:2]]
    # The torch of the tests may lie in a home that is closed to the user.
    chosen = [script for script in drawn if "import torch\n" not in script.text]
    assert len(chosen) >= 4

    wrong = misjudged(rehearsed(user, "sample", "lumi", chosen))

    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.parametrize("seed", [31, 90210])
@pytest.mark.parametrize("site", SITES)
def test_forty_broken_scripts_are_said_to_be_broken_and_forty_right_ones_are_not(
    user: RealUser, site: str, seed: int
) -> None:
    """Eight of each at each of five sites."""
    user.bring_torch()
    mine = slice(8 * SITES.index(site), 8 * SITES.index(site) + 8)
    chosen = [*list(draw(seed, 40, broken=True))[mine], *list(draw(seed, 40, broken=False))[mine]]

    answers = rehearsed(user, f"{site}-{seed}", site, chosen)

    wrong = misjudged(answers)
    print(f"{site}, seed {seed}: {len(answers)} rehearsals, {len(wrong)} misjudged")
    assert not wrong, "\n".join(wrong)
