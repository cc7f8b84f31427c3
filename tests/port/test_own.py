"""The way back: a script that Muster wrote, read again, gives the same request and the same plan, at every site."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.errors import MusterError
from muster.model.plan import Plan
from muster.plan.build import make_plan
from muster.render.script import job_script
from muster_lint.port.target import request_of
from plugins.wide import sampled
from sites.golden_scripts import Case, cases, facts_of, plan_of, words_of
from sites.profiles import bundled

from .scripts import read

SITES = sorted({case.site for case in cases()})


def _again(case: Case, first: Plan) -> None:
    _, draft = read(job_script(first))
    second = make_plan(request_of(draft), bundled(case.site), facts_of(case.mode), typed=first.typed)
    assert replace(second, directives=()) == replace(first, directives=()), words_of(case)
    assert {(each.name, each.value) for each in second.directives} == {
        (each.name, each.value) for each in first.directives
    }


@pytest.mark.parametrize("site", sampled(SITES, keep=24))
def test_the_plan_of_a_script_of_muster_s_is_the_same(site: str) -> None:
    plans = {case: plan_of(case) for case in cases() if case.site == site}
    made = {case: first for case, first in plans.items() if not isinstance(first, MusterError)}
    assert made
    for case, first in made.items():
        _again(case, first)


def test_an_edited_header_holds() -> None:
    script = job_script(plan("-N", "4", "-g", "4", "-t", "30", "--", "python", "train.py"))
    _, draft = read(script.replace("--nodes=4", "--nodes=8").replace("--time=00:30:00", "--time=02:00:00"))
    assert draft.values["nodes"] == ["8"]
    assert draft.values["time"] == ["02:00:00"]
    assert [row.why for row in draft.rows if row.what == "#SBATCH --nodes=8"] == ["edited after Muster wrote it"]


def test_words_with_quotes_and_blanks_come_back() -> None:
    words = ["-N", "2", "--env", "A=a  b 'c'", "-J", "my job", "--", "python", "train.py", "it's", "*", "a  b"]
    _, draft = read(job_script(plan(*words)))
    request = request_of(draft)
    assert request.command == ("python", "train.py", "it's", "*", "a  b")
    assert (request.env, request.job_name) == (("A=a  b 'c'",), "my job")
