"""A few words behind or above each line of the job that is not plain Slurm."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.model.plan import Reason, Variable
from muster.model.words import noted
from muster.render.script import job_part
from muster.sites.load import load
from sites.profiles import SITES

_GOES_ON = ("-t", "60", "--restart", "2", "--save-before", "2m", "--checkpoint", "saved", "--spares", "1")


@pytest.mark.parametrize("site", SITES)
def test_each_variable_that_a_site_sets_has_a_reason_of_a_few_words(site: str) -> None:
    wordy = [
        variable.name
        for variable in load(site).profile.environment
        if variable.verdict == "kept" and len((variable.short or variable.reason).split()) > 8
    ]

    assert wordy == []


def test_a_reason_of_a_profile_is_shown_if_it_is_short_and_a_user_s_is_not() -> None:
    words = "locks do not work on its file systems"
    assert Reason(words, key="environment.X").note == words
    assert Reason(f"{words} today", key="environment.X").note == ""
    assert Reason(f"{words} today", key="environment.X", short="no locks").note == "no locks"
    assert Reason("set by you").note == ""


def test_variables_of_one_reason_share_a_line_and_those_of_another_do_not() -> None:
    made = plan("-N", "2", "--", "x")
    variables = [Variable(name, "1", Reason("why", short="one reason")) for name in "AB"]
    job = job_part(replace(made, variables=(*variables, Variable("C", "1", Reason("why", short="another")))))

    assert "    export A=1 B=1  # one reason\n    export C=1  # another\n" in job


def test_words_that_do_not_fit_behind_a_line_stand_above_it() -> None:
    assert noted("export A=1", "why") == ("export A=1  # why",)
    assert noted("export A=1", "") == ("export A=1",)
    assert noted(f"export A={'1' * 100}", "why it is so") == ("# why it is so", f"export A={'1' * 100}")
    assert noted("export A='a\nb'", "why") == ("# why", "export A='a\nb'")


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun", "mpirun+torchrun"])
def test_all_below_the_line_of_the_supervisor_is_one_attempt(launcher: str) -> None:
    job = job_part(plan(*_GOES_ON, "-N", "2", "-g", "4", "-c", "8", "--", "python", "train.py", launcher=launcher))
    before, _, after = job.partition("    muster_supervise ")

    assert [line for line in job.splitlines() if len(line) > 120] == []
    assert re.findall(r"^    (muster_\w+)", before, re.MULTILINE) == ["muster_begin"]
    assert "muster_finish" in after


def test_what_the_ranks_are_told_of_their_start_is_one_line() -> None:
    job = job_part(plan(*_GOES_ON, "-N", "2", "--", "python", "train.py"))

    assert len(re.findall(r"^ *export MUSTER_", job, re.MULTILINE)) == 1
    assert "    # what each rank is told of its start\n    export MUSTER_ATTEMPT=" in job
