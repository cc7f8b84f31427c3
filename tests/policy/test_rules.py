"""What a site refuses is refused before its scheduler sees it, by the right rule and with a document behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.policy.names import unlisted_names
from muster.policy.queues import choose_queue, longest_s
from muster.policy.rules import Ask, refusals
from muster.sites.when import Situation
from muster.units import Memory, parse_walltime_s
from sites.profiles import FILLED, SITES, bundled
from sites.wrong import CATALOGUE, HOUR, RIGHT, Wrong


def test_the_catalogue_is_wide_enough() -> None:
    assert len(CATALOGUE) >= 150
    kinds = Counter(wrong.rule for wrong in CATALOGUE)
    assert len(kinds) >= 25
    assert max(kinds.values()) <= len(CATALOGUE) / 6
    sites = Counter(wrong.site for wrong in CATALOGUE)
    assert set(sites) == set(SITES)
    assert min(sites.values()) >= 2
    assert all(sites[name] >= 4 for name in FILLED)
    assert len(set(map(str, CATALOGUE))) == len(CATALOGUE)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_request_is_not_refused(name: str) -> None:
    assert list(refusals(bundled(name).profile, Ask(**RIGHT[name]))) == []


@pytest.mark.parametrize("wrong", CATALOGUE, ids=str)
def test_a_wrong_request_is_refused_or_warned_of_by_its_rule_with_a_source(wrong: Wrong) -> None:
    site = bundled(wrong.site)
    ask = Ask(**{**RIGHT[wrong.site], **wrong.bent})
    found = list(refusals(site.profile, ask))
    if wrong.rule.startswith("unknown-"):
        (unlisted,) = unlisted_names(site.profile, ask)
        assert wrong.rule == f"unknown-{unlisted.kind.replace(' ', '-').lower()}"
        assert site.origin(unlisted.key).source is not None
        assert not found, [refusal.message for refusal in found]
        return
    assert wrong.rule in [refusal.rule for refusal in found], [refusal.message for refusal in found]
    for refusal in found:
        assert refusal.message
        assert refusal.hint
        origin = site.origin(refusal.key)
        assert origin.source is not None, refusal.key
        assert origin.line is not None


def test_what_a_wrong_request_is_told(golden: Callable[[Path, str], None]) -> None:
    rows = []
    for wrong in CATALOGUE:
        rows.append(str(wrong))
        for each in refusals(bundled(wrong.site).profile, Ask(**{**RIGHT[wrong.site], **wrong.bent})):
            accepted = "".join(f" | {name}={value}" for name, value in each.accepted.items())
            rows.append(f"    {each.message} | {each.hint} | {each.key}{accepted}")
    golden(Path(__file__).parent.parent / "golden/refused.txt", "\n".join([*rows, ""]))


@pytest.mark.parametrize("wrong", CATALOGUE, ids=str)
def test_a_request_at_its_limit_is_not_refused(wrong: Wrong) -> None:
    bent = {**RIGHT[wrong.site], **wrong.bent}
    profile = bundled(wrong.site).profile
    for refusal in refusals(profile, Ask(**bent)):
        typed: dict[str, Any] = {}
        if refusal.hint.startswith("-N "):
            typed["nodes"] = int(refusal.hint[3:].partition(" ")[0])
        elif refusal.accepted.get("time"):
            typed["time_s"] = parse_walltime_s(str(refusal.accepted["time"]))
        elif refusal.accepted.get("mem"):
            typed["mem"] = Memory.parse(str(refusal.accepted["mem"]))
        elif refusal.hint.startswith("--cpus-per-task "):
            typed["cpus_per_task"] = int(refusal.accepted["cpus-per-task"] or 0)
        if typed:
            assert refusal.rule not in {each.rule for each in refusals(profile, Ask(**{**bent, **typed}))}


def test_one_bent_thing_breaks_one_rule_or_says_why_two() -> None:
    many = {
        str(wrong): sorted(
            {each.rule for each in refusals(bundled(wrong.site).profile, Ask(**{**RIGHT[wrong.site], **wrong.bent}))}
        )
        for wrong in CATALOGUE
    }
    assert {name: rules for name, rules in many.items() if len(rules) > 2} == {}


@pytest.mark.parametrize(("nodes", "hours"), [(1, 2), (91, 2), (92, 6), (183, 6), (184, 12), (5000, 12)])
def test_frontiers_walltime_grows_with_the_size(nodes: int, hours: int) -> None:
    assert longest_s(bundled("frontier").profile.partitions["batch"], nodes) == hours * HOUR


@pytest.mark.parametrize(
    ("job", "queue"),
    [
        (Situation(nodes=1, gpus_per_node=1), "small-g"),
        (Situation(nodes=2, gpus_per_node=8, whole_node=True), "standard-g"),
        (Situation(nodes=1, gpus_per_node=8, whole_node=True, trial=True, time_s=HOUR), "dev-g"),
        (Situation(nodes=64, gpus_per_node=8, whole_node=True, trial=True, time_s=HOUR), "standard-g"),
        (Situation(nodes=1, gpus_per_node=0), "small"),
    ],
)
def test_the_partition_follows_the_request(job: Situation, queue: str) -> None:
    choice = choose_queue(bundled("lumi").profile, job)
    assert choice.partition == queue
    assert choice.reason


def test_what_the_user_names_wins() -> None:
    choice = choose_queue(bundled("lumi").profile, Situation(gpus_per_node=8), partition="small-g")
    assert (choice.partition, choice.keys) == ("small-g", {})


def test_the_gres_selects_the_partition_where_the_site_says_so() -> None:
    choice = choose_queue(bundled("supercloud").profile, Situation(nodes=2, gpus_per_node=2))
    assert (choice.partition, choice.qos) == (None, None)
    assert "gres" in choice.reason


@pytest.mark.parametrize(
    ("ask", "refused"),
    [
        (Ask(nodes=16, gpus_per_node=2), True),
        (Ask(nodes=4, gpus_per_node=2), False),
        (Ask(nodes=17), True),  # no partition takes so many
        (Ask(nodes=16), False),  # one without GPUs does
    ],
)
def test_the_partition_that_the_site_picks_by_itself_has_its_limit_too(ask: Ask, refused: bool) -> None:
    found = [each.rule for each in refusals(bundled("supercloud").profile, ask)]
    assert ("nodes-max" in found) == refused


def test_a_missing_queue_is_asked_for_with_those_that_suit_the_job() -> None:
    profile = bundled("marenostrum5").profile
    asked = {**RIGHT["marenostrum5"], "qos": None}
    (for_gpus,) = (each for each in refusals(profile, Ask(**asked)) if each.rule == "required-qos")
    assert "such as acc_ehpc," in for_gpus.hint
    assert "gp_debug" not in for_gpus.hint
    without_gpus = Ask(**{**asked, "gpus_per_node": 0})
    assert any("gp_debug" in each.hint for each in refusals(profile, without_gpus) if each.rule == "required-qos")
