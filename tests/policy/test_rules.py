"""What a site refuses is refused before its scheduler sees it, by the right rule and with a document behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.policy.elsewhere import name_others
from muster.policy.names import unlisted_names
from muster.policy.queues import choose_queue, kind_of, longest_s
from muster.policy.rules import Ask, refusals
from muster.sites.load import load
from muster.sites.when import Situation
from muster.units import Memory, parse_walltime_s
from sites.profiles import FILLED, SITES, bundled, written
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
        site, ask = bundled(wrong.site), Ask(**{**RIGHT[wrong.site], **wrong.bent})
        for each in name_others(site, ask, (ask.partition, ask.qos), list(refusals(site.profile, ask))):
            accepted = "".join(f" | {name}={value}" for name, value in each.accepted.items())
            rows.append(f"{wrong}: {each.message} | {each.hint} | {each.key}{accepted}")
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


# Three kinds of node, two of them in one partition; a partition with QOS of its own.
OF_TYPES = """\
name = "mine"
title = "a site for a test"
[nodes.a]
gpus = 4
gpu_type = "a100"
nodes = 4
cores = 16
cores_per_gpu = 4
cores_per_gpu_required = true
[nodes.h]
gpus = 8
gpu_type = "h100"
nodes = 2
[nodes.c]
gpus = 0
nodes = 8
[partitions.old]
node = "a"
default = true
[partitions.new]
node = "h"
other_nodes = ["a"]
qos = ["long", "short"]
[partitions.cpu]
node = "c"
gpus = 0
[qos.long]
[qos.short]
[qos.other]
default = true
time_max = "01:00:00"
[request]
constraint = { h = "fast", c = "slow" }
forbidden = [{ flag = "hint", value = "multithread", reason = "one thread a core" }]
"""


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"partition": "old", "gpu_type": "a100"}, []),
        (
            {"partition": "old", "gpu_type": "h100", "gpus_per_node": 4},
            ["old has GPUs of type a100, none of type h100 | --gpu-type a100"],
        ),
        (
            {"partition": "old", "gpu_type": "v100"},
            ["no partition has GPUs of type v100; there are a100 (old), h100 and a100 (new) | --gpu-type a100"],
        ),
        ({"partition": "new", "gpu_type": "a100", "qos": "short"}, []),
        (
            {"partition": "new", "qos": "other"},
            ["new takes jobs of the QOS long or short, but this one has other | -q long"],
        ),
        ({"partition": "new"}, []),
        ({"partition": "new", "nodes": 6}, []),
        ({"partition": "new", "nodes": 7}, ["7 nodes, but new has 6 | -N 6"]),
        ({"partition": "new", "nodes": 5, "gpu_type": "a100"}, ["5 nodes, but new has 4 of kind a | -N 4"]),
        ({"partition": "new", "nodes": 3, "gpu_type": "h100"}, ["3 nodes, but new has 2 of kind h | -N 2"]),
        ({"nodes": 5}, ["5 nodes, but old has 4 | -N 4"]),
        ({"nodes": 5, "flags": {"reservation": "course"}}, []),
        ({"partition": "old", "gpus_per_node": 5}, ["5 GPUs per node, but a node has 4"]),
        ({"partition": "new", "gpus_per_node": 8}, []),
        ({"partition": "cpu", "gpus_per_node": 1}, ["cpu has no GPUs | omit --gpus-per-node"]),
        ({"partition": "old", "cpus_per_task": 4, "gpus_per_node": 0}, []),
        ({"partition": "old", "cpus_per_task": 4, "gpus_per_node": 1}, []),
        ({"cpus_per_task": 5, "gpus_per_node": 1}, ["5 CPUs for 1 GPUs, but at mine Muster wants 4 for each"]),
        ({"partition": "old", "cpus_per_task": 17}, ["1 × 17 = 17 CPUs per node, but 16 can be had"]),
        (
            {"partition": "old", "ntasks_per_node": 17, "cpus_per_task": 2},
            ["17 × 2 = 34 CPUs per node, but 16 can be had | --ntasks-per-node 8"],
        ),
        ({"partition": "new", "constraint": "fast"}, []),
        (
            {"partition": "old", "constraint": "fast"},
            ["old has nodes of kind a, but --constraint=fast selects h | for h: new"],
        ),
        (
            {"partition": "new", "constraint": "slow"},
            ["new has nodes of kind h and a, but --constraint=slow selects c | for c: cpu"],
        ),
        ({"time_s": 3600}, []),
        ({"time_s": 7200, "flags": {"reservation": "course"}}, ["02:00:00, but other allows 01:00:00"]),
        ({"time_s": 7200, "qos": "long"}, []),
        ({"flags": {"hint": "multithread"}}, ["--hint=multithread: one thread a core | omit it"]),
        ({"flags": {"hint": "nomultithread"}}, []),
    ],
)
def test_a_site_of_several_types_of_gpu(asked: dict[str, Any], told: list[str], tmp_path: Path) -> None:
    profile = load(str(written(tmp_path, OF_TYPES))).profile
    found = [f"{each.message} | {each.hint}" for each in refusals(profile, Ask(**asked))]
    assert len(found) == len(told), found
    assert all(text.startswith(start) for text, start in zip(found, told)), found


@pytest.mark.parametrize(
    ("asked", "partition"),
    [
        ({}, None),
        ({"gpu_type": "a100"}, None),  # the default partition has it
        ({"gpu_type": "h100"}, "new"),
        ({"gpu_type": "h100", "there": frozenset({"old"})}, None),
        ({"gpu_type": "v100"}, None),
        ({"qos": "short"}, "new"),
        ({"qos": "short", "gpu_type": "v100"}, None),
        ({"qos": "other"}, None),
        ({"partition": "cpu"}, "cpu"),
    ],
)
def test_the_partition_follows_the_type_and_the_qos(
    asked: dict[str, Any], partition: str | None, tmp_path: Path
) -> None:
    profile = load(str(written(tmp_path, OF_TYPES))).profile
    chosen = choose_queue(profile, Situation(gpus_per_node=4), **asked)
    assert chosen.partition == partition
    assert chosen.qos == (asked.get("qos") or ("long" if partition == "new" else None))


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({}, "a"),
        ({"gpus": 0}, "c"),
        ({"gpu_type": "h100"}, "h"),
        ({"gpu_type": "v100"}, None),
        ({"partition": "new"}, "h"),
        ({"partition": "new", "gpu_type": "a100"}, "a"),
        ({"partition": "old", "gpu_type": "h100"}, "h"),
        ({"partition": "cpu", "gpus": 4}, "c"),
        ({"partition": "nobodys"}, None),
        ({"qos": "nobodys"}, "a"),
        ({"constraint": "fast"}, "h"),
        ({"constraint": "big"}, "a"),
        ({"partition": "old", "constraint": "fast"}, "a"),
        ({"qos": "short"}, "a"),
    ],
)
def test_the_kind_of_node_that_a_job_gets(asked: dict[str, Any], kind: str | None, tmp_path: Path) -> None:
    assert kind_of(load(str(written(tmp_path, OF_TYPES))).profile, **asked) == kind
