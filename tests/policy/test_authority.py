"""Every refusal and warning that names a site has a document behind it, and a demand of the site has its sentence.

The requests are made from each profile itself: whatever its rules can refuse is refused here once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launch.plans import plan
from muster.errors import Refusal, RequestError
from muster.launchers import names_in_profiles
from muster.policy.names import say_unlisted, unlisted_names
from muster.policy.queues import longest_s
from muster.policy.rules import RULES, Ask, doubt_of, refusals, say_origin
from muster.sites.consistency import OPENABLE
from muster.sites.load import load, overrides_from
from muster.sites.schema import Profile, Queue
from muster.sites.site import Site
from muster.units import Memory
from sites.profiles import SITES, bundled
from sites.test_two_kinds import two_kinds

HUGE = 10**7

# What a site asks of a job: words for it stand in a document, or the demand is Muster's own.
DEMANDS = ("request.required.", "memory.zero_allowed", "request.gpus", ".cores_per_gpu_required")


def wrong_asks(profile: Profile) -> Iterator[Ask]:
    """Requests that break each rule for which the profile has a fact."""
    yield from (Ask(), Ask(time_s=1), Ask(time_s=10**9))
    for rule in profile.request.forbidden:
        yield Ask(flags={rule.flag: rule.value})
    yield Ask(mem=Memory.parse("0"))
    for name, queue in profile.partitions.items():
        yield from (Ask(partition=name, **bent) for bent in wrong_for_queue(queue))
    for name, queue in profile.qos.items():
        yield from (Ask(qos=name, **bent) for bent in wrong_for_queue(queue))
    queues_of_kinds = {queue.node: name for name, queue in profile.partitions.items()}
    for kind, node in profile.nodes.items():
        partition = queues_of_kinds.get(kind)
        constraint = (profile.request.constraint or {}).get(kind)
        yield Ask(partition=partition, constraint=constraint, gpus_per_node=HUGE, cpus_per_task=HUGE)
        yield Ask(partition=partition, constraint=constraint, gpus_per_node=node.gpus or 0, cpus_per_task=1)
        yield Ask(partition=partition, constraint=constraint, gpus_per_node=1, mem=Memory.parse("9999T"))
        yield from (Ask(partition=name, gpu_type=node.gpu_type) for name in profile.partitions)
    yield from (Ask(partition=name, qos=qos) for name in profile.partitions for qos in profile.qos)
    yield from (Ask(partition=name, qos=name) for name in profile.queues_renamed)
    yield from (Ask(modules=(name,)) for name in profile.modules.renamed)
    yield from (Ask(image=f"site:{name}") for name in profile.images)
    yield from (Ask(launcher=name) for name in profile.launch.refused)
    for suffix in (profile.request.account_suffix or {}).values():
        for constraint in (profile.request.constraint or {}).values():
            yield Ask(account=f"abc{suffix}", constraint=constraint)
    for constraint in (profile.request.constraint or {}).values():
        for name in profile.qos:
            yield Ask(qos=name, constraint=constraint)


def wrong_for_queue(queue: Queue) -> Iterator[dict[str, Any]]:
    yield {"gpus_per_node": HUGE, "nodes": HUGE}
    yield {"nodes": 1}
    longest = longest_s(queue, queue.nodes_max or 1)
    if longest is not None:
        yield {"time_s": longest + 60, "nodes": queue.nodes_max or 1}


def every_refusal(site: Site) -> dict[tuple[str, str], Refusal]:
    """Return one refusal of each rule and key."""
    found = (refusal for ask in wrong_asks(site.profile) for refusal in refusals(site.profile, ask))
    return {(refusal.rule, refusal.key): refusal for refusal in found}


@pytest.mark.parametrize("name", SITES)
def test_every_refusal_has_a_document_that_can_be_opened(name: str) -> None:
    site = bundled(name)
    found = every_refusal(site)
    assert found
    for refusal in found.values():
        source = site.origin(refusal.key).source
        assert source is not None, refusal
        assert OPENABLE.search(source.at), refusal


@pytest.mark.parametrize("name", SITES)
def test_a_demand_is_in_the_sites_name_only_with_the_sites_own_sentence(name: str) -> None:
    site = bundled(name)
    for refusal in every_refusal(site).values():
        if not any(word in refusal.key for word in DEMANDS):
            continue
        speaks_for_the_site = any(
            words in refusal.message for words in (f"{name} wants", "is refused here", f"{name} gives whole nodes")
        )
        assert speaks_for_the_site == (site.says(refusal.key) is not None), refusal
        if refusal.rule.startswith("required-"):
            assert bool(say_origin(site, refusal)) == speaks_for_the_site, "no document beside a caution of Muster's"


@pytest.mark.parametrize("name", SITES)
def test_a_forbidden_flag_and_a_needed_variable_have_a_source(name: str) -> None:
    site = bundled(name)
    for number, rule in enumerate(site.profile.request.forbidden):
        assert rule.source, rule
        assert site.origin(f"request.forbidden.{number}").source is not None
    for number, variable in enumerate(site.profile.environment):
        assert not variable.required or site.origin(f"environment.{number}").source is not None, variable


def test_the_requests_reach_every_rule(tmp_path: Path) -> None:
    profiles = [*(bundled(name).profile for name in SITES), two_kinds(tmp_path)]
    asks = [(profile, ask) for profile in profiles for ask in wrong_asks(profile)]
    reached = {rule for rule in RULES if any(any(rule(profile, ask)) for profile, ask in asks)}
    assert reached == set(RULES)


def unlisted_ask(profile: Profile) -> Ask:
    """Return a request of which the profile lists no name."""
    launch = profile.launch
    launcher = next(
        (name for name in names_in_profiles() if name not in {*(launch.allowed or ()), *launch.refused}), None
    )
    return Ask(partition="zz9", qos="zz9", account="@zz9", constraint="zz9", gpu_type="zz9", launcher=launcher)


@pytest.mark.parametrize("name", SITES)
def test_a_name_that_a_profile_does_not_list_is_a_warning_in_musters_name(name: str) -> None:
    site = bundled(name)
    ask = unlisted_ask(site.profile)
    assert not [refusal for refusal in refusals(site.profile, ask) if not refusal.rule.startswith("required-")]
    found = list(unlisted_names(site.profile, ask))
    assert found
    for unlisted in found:
        sentence = say_unlisted(site, unlisted)
        assert sentence.startswith(f"Muster's profile of {name} does not know the {unlisted.kind} ")
        source = site.origin(unlisted.key).source
        assert source is not None
        assert str(source.dated or source.checked) in sentence
        assert f"--site-set {unlisted.assignment}" in sentence


@pytest.mark.parametrize("name", SITES)
def test_the_assignment_of_the_warning_ends_it(name: str) -> None:
    site = bundled(name)
    ask = unlisted_ask(site.profile)
    assignments = [unlisted.assignment or "" for unlisted in unlisted_names(site.profile, ask)]
    taught = load(name, overrides=overrides_from([text.strip("'") for text in assignments]))
    assert not list(unlisted_names(taught.profile, ask))


def test_a_sentence_holds_for_its_own_key_alone() -> None:
    lumi = bundled("lumi")
    assert lumi.says("request.required.account")
    assert not lumi.says("request.required")
    assert not lumi.says("request.required.partition")


def test_an_unlisted_partition_is_planned_from_what_was_typed() -> None:
    made = plan("-A", "abcd-delta-cpu", "-p", "zz9", "-g", "0", "-c", "4", "-t", "10", "--", "true", site="delta")
    (warning,) = [note.text for note in made.notes if note.warning]
    assert "does not know the partition zz9 (documents of 2025-05-28)" in warning
    assert made.shape.cpus_per_task == 4
    assert not {"mem", "mem-per-gpu"} & {directive.name for directive in made.directives}


@pytest.mark.parametrize(
    ("name", "words", "is_told"),
    [
        ("vega", "-N 61", True),
        ("horeka", "-A hk-project-p0012345 -p gpu-h100 -N 22", True),
        ("horeka", "-A hk-project-p0012345 -p gpu-h100 -N 21", False),
    ],
)
def test_a_count_of_nodes_that_others_wrote_is_told_and_not_refused(name: str, words: str, is_told: bool) -> None:
    made = plan(*words.split(), "-g", "4", "-t", "30", "--", "true", site=name)
    assert any("the number is not the site's own" in note.text for note in made.notes if note.warning) is is_told


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("perlmutter", "-A m1 -N 2 -g 4", ["regular is not verified: 24 to 48 hours"]),
        ("perlmutter", "-A m1 -N 2 -g 4 -q debug", []),
        ("juwels-booster", "-A x -N 2 -g 4", ["booster is not verified: "]),
        ("lumi", "-A project_465000000 -N 2 -g 8", []),
    ],
)
def test_a_limit_of_time_that_nobody_verified_is_told(name: str, words: str, told: list[str]) -> None:
    made = plan(*words.split(), "-t", "30", "--", "true", site=name)
    notes = [note.text for note in made.notes if "is not verified" in note.text]
    assert len(notes) == len(told)
    assert all(each in note for each, note in zip(told, notes, strict=True))


def test_a_count_of_nodes_of_the_site_or_of_the_user_refuses() -> None:
    with pytest.raises(RequestError, match="1025 nodes"):
        plan("-N", "1025", "-A", "project_465000000", "-g", "8", "-t", "30", "--", "true", site="lumi")
    own = load("vega", overrides=overrides_from(["partitions.gpu.nodes=9"]))
    refusal = next(each for each in refusals(own.profile, Ask(nodes=10, partition="gpu", gpus_per_node=4)))
    assert not doubt_of(own, refusal)


def test_nothing_of_a_known_node_is_taken_for_an_unlisted_one() -> None:
    words = ("-A", "abcd-delta-gpu", "-p", "zz9", "-t", "10", "--", "true")
    assert plan("-g", "8", *words, site="delta").shape.cpus_per_task is None
    with pytest.raises(RequestError, match="8 GPUs per node are asked for, but a node of gpuA100x4 has 4"):
        plan("-g", "8", *[word.replace("zz9", "gpuA100x4") for word in words], site="delta")


def test_a_partition_that_is_gone_is_still_refused() -> None:
    found = [refusal.rule for refusal in refusals(bundled("horeka").profile, Ask(partition="accelerated"))]
    assert "renamed-queue" in found
    assert not list(unlisted_names(bundled("horeka").profile, Ask(partition="accelerated")))


def test_each_partition_of_a_list_is_looked_for() -> None:
    found = unlisted_names(bundled("delta").profile, Ask(partition="gpuA100x4,zz9"))
    assert [unlisted.name for unlisted in found] == ["zz9"]


def test_a_type_that_the_profile_does_not_list_brings_no_numbers() -> None:
    words = ("-A", "def-x", "-N", "1", "-t", "1:00:00", "--", "true")
    unlisted = plan("--gres", "gpu:zz9:1", *words, site="rorqual")
    assert unlisted.shape.cpus_per_task is None
    assert any("does not know the GPU type zz9" in note.text for note in unlisted.notes)
    listed = plan("--gres", "gpu:h100:1", *words, site="rorqual")
    assert listed.shape.cpus_per_task
    assert not [note for note in listed.notes if note.warning]
