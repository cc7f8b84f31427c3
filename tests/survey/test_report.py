"""The report for an issue holds what was seen, and nothing of who saw it."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.facts import Facts
from muster.older import tomllib
from muster_check.survey.ask import private_of
from muster_check.survey.draft import Survey, seen_profile
from muster_check.survey.report import Private, report
from muster_check.survey.verify import WrongFact, verify
from sites.profiles import bundled

from .test_place import LOGIN
from .test_probe import ANSWERS


def made(user: str, home: str, account: str, **more: str) -> str:
    """The report of a survey into which this user's names came at every place that a cluster might put them."""
    row = f"{account}|up|1:00|n/a|1-2|3|8|1:8:1|1000|(null)|{user}\n"
    answers = {
        **ANSWERS,
        "place": LOGIN,
        "accounts": f"{account}|main|normal\n",
        # A partition of the user's group, a node that is called by the user, a message with the home in it.
        "partitions": ANSWERS["partitions"] + ("" if account in ANSWERS["partitions"] else row),
    }
    survey = Survey(day="2026-11-22", host="login1", user=user, answers=answers)
    site = bundled("delta")
    seen = seen_profile(survey)
    origin = site.origin("launch.preferred")
    findings = [
        *verify(site, seen),
        WrongFact("request", "Muster's launch is right", f"shows: {home}/run/1: {user} may not use {account}", origin),
        WrongFact("request", "paths", f"/scratch/{user}/x and {home} and file={home}/a, and /opt/tools", origin),
    ]
    facts = Facts(hostname="login1", user=user, home=home, working_directory=f"{home}/secret-project", environment=more)
    return report(site, survey, seen, findings, "0.1.0", private_of(facts, survey))


HOSTILE = [
    ("ada", "/home/ada", "def-ada"),
    ("gpu", "/home/gpu", "main"),
    ("a.b", "/users/a.b", "p_1"),
    ("x+y[z", "/h/x+y[z", "acc(1)"),
    ("node", "/", "debug"),
    ("O'Brien", "/home/O'Brien", 'say "hi"'),
    ("e", "/home/e", "hk-project-p0012345"),
    ("müller", "/home/müller", "физика"),
]


@pytest.mark.parametrize(("user", "home", "account"), HOSTILE)
def test_no_name_account_or_path_of_the_user_is_in_the_report(user: str, home: str, account: str) -> None:
    text = made(user, home, account)
    table = tomllib.loads(text)
    words = "\n".join(_texts({key: value for key, value in table.items() if key != "report"}))
    for secret in (user, account):
        assert not re.search(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", words, re.IGNORECASE), words
    if home != "/":
        assert home not in words
    assert "secret-project" not in text


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for key, child in value.items() for text in (key, *_texts(child))]
    if isinstance(value, list):
        return [text for child in value for text in _texts(child)]
    return [value] if isinstance(value, str) else []


def test_what_was_seen_is_there_by_its_day_and_version() -> None:
    table = tomllib.loads(made("ada", "/home/ada", "def-ada"))
    assert table["report"]["of"] == "delta"
    assert table["report"]["day"] == "2026-11-22"
    assert table["report"]["muster"] == "0.1.0"
    assert table["report"]["holds"] is False
    assert table["seen"]["nodes"]["a1004"]["gpus"] == 4
    assert table["seen"]["launch"]["slurm"] == "22.05.8"
    assert table["seen"]["filesystems"]["scratch"]["purge_days"] == 30
    assert "/opt/tools" in "\n".join(_texts(table))
    assert "modules" not in table["seen"]
    assert "account_example" not in made("ada", "/home/ada", "def-ada")


def test_variables_that_name_an_account_or_a_place_are_private_too() -> None:
    text = made("ada", "/home/ada", "def-ada", SBATCH_ACCOUNT="long", SCRATCH="/lustre/ada-files")
    assert tomllib.loads(text)["seen"]["qos"].keys() == {"NAME"}


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
@example(user="\x7f", account='\x00\U0001f600"\\')
def test_whatever_a_user_is_called_the_report_is_toml(user: str, account: str) -> None:
    site = bundled("delta")
    survey = Survey(day="2026-11-22", host="h", answers=ANSWERS)
    finding = WrongFact("k", user, f"/home/{user}/{account}", site.origin("launch.preferred"))
    private = Private((user, account), (f"/home/{user}",))
    tomllib.loads(report(site, survey, seen_profile(survey), [finding], "0.1.0", private))
