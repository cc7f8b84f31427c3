"""The report for an issue holds what was seen, and nothing of who saw it."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.facts import Facts
from muster.older import tomllib
from muster_check.survey.ask import private_of
from muster_check.survey.draft import Survey
from muster_check.survey.report import Private, report
from muster_check.survey.verify import WrongFact, verify
from sites.profiles import bundled
from slurm.clusters import accounting_text, cluster, kind_line, like_site, partition_line

from .test_place import LOGIN
from .test_probe import A100, ANSWERS, asked_alone


def made(user: str, home: str, account: str, **more: str) -> str:
    """The report of a survey into which this user's names came at every place that a cluster might put them."""
    answers = {**ANSWERS, "place": LOGIN}
    own = partition_line("NAME").replace("NAME", account)
    own_cluster = cluster(
        # A partition of the user's group, a node that is called by the user, a message with the home in it.
        [partition_line("main", Default="YES"), *([own] if " " not in account else [])],
        [kind_line("main", 16, 64, features=user, **A100)],
        accounting_text(f"{account}|{account}|main|normal|", "normal||||||cluster|\nlong|7-00:00:00|||||cluster|"),
    )
    survey = Survey(day="2026-11-22", host="login1", user=user, cluster=own_cluster, answers=answers)
    site = bundled("delta")
    origin = site.origin("launch.preferred")
    findings = [
        *verify(site, survey),
        WrongFact("request", "a launch is right", "the launch shows", f"{home}/run/1: {user} as {account}", origin),
        WrongFact(
            "request",
            "paths",
            "two nodes show",
            f"/scratch/{user}/x and {home} and file={home}/a, and /opt/tools",
            origin,
        ),
    ]
    facts = Facts(hostname="login1", user=user, home=home, working_directory=f"{home}/secret-project", environment=more)
    return report(site, survey, findings, "0.1.0", private_of(facts, survey))


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
    assert table["seen"]["nodes"]["a100-4"]["gpus"] == 4
    assert table["seen"]["launch"]["slurm"] == "22.05.8"
    assert table["seen"]["filesystems"]["scratch"]["purge_days"] == 30
    assert "/opt/tools" in "\n".join(_texts(table))
    assert "modules" not in table["seen"]
    assert "account_example" not in made("ada", "/home/ada", "def-ada")


def test_both_values_stand_there_with_both_origins() -> None:
    site = bundled("delta")
    there = like_site(site.profile, gpuA100x4={"MaxTime": "06:00:00"}, cpu={"PartitionName": "cpu-new"})
    survey = asked_alone(cluster=there)
    table = tomllib.loads(report(site, survey, verify(site, survey), "0.1.0", Private()))
    by_key = {each["key"]: each for each in table["disagrees"].values()}
    limit = by_key["partitions.gpuA100x4.time_max"]
    assert (limit["profile"], limit["cluster"], limit["by"]) == ("2-00:00:00", "06:00:00", "Slurm says here")
    assert "Delta" in limit["profile_has_it_from"]
    assert (by_key["partitions.cpu"]["profile"], by_key["partitions.cpu"]["cluster"]) == (
        "there is one",
        "there is none",
    )
    assert table["report"]["not_in_the_profile"] == {"partitions": ["cpu-new"]}


def test_variables_that_name_an_account_or_a_place_are_private_too() -> None:
    text = made("ada", "/home/ada", "def-ada", SBATCH_ACCOUNT="long", SCRATCH="/lustre/ada-files")
    assert tomllib.loads(text)["seen"]["qos"].keys() == {"NAME"}


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
@example(user="\x7f", account='\x00\U0001f600"\\')
def test_whatever_a_user_is_called_the_report_is_toml(user: str, account: str) -> None:
    site = bundled("delta")
    survey = asked_alone()
    finding = WrongFact("k", user, "a node shows", f"/home/{user}/{account}", site.origin("launch.preferred"))
    private = Private((user, account), (f"/home/{user}",))
    tomllib.loads(report(site, survey, [finding], "0.1.0", private))
