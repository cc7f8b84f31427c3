"""What a site's own page names is never refused in the site's name, and nearly all of it is known."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from launch.plans import plan
from muster.errors import RequestError
from muster.policy.names import unlisted_names
from muster.policy.rules import Ask, refusals
from muster.sites.load import load, overrides_from
from sites.named import ACCOUNTS, GPU_TYPES, PARTITIONS, QOS, REQUESTS
from sites.profiles import bundled

# Names of a page that are not for everybody, or whose limits the page does not give.
NOT_LISTED = {("kempner", "kempner_dev"), ("perlmutter", "premium")}


def asks() -> Iterator[tuple[str, str, Ask]]:
    for site, names in PARTITIONS.items():
        yield from ((site, name, Ask(partition=name)) for name in names)
    for site, names in QOS.items():
        yield from ((site, name, Ask(qos=name)) for name in names)
    for site, names in GPU_TYPES.items():
        yield from ((site, name, Ask(gpu_type=name, gpus_per_node=1)) for name in names)
    for site, names in ACCOUNTS.items():
        yield from ((site, name, Ask(account=name)) for name in names)


@pytest.mark.parametrize(("site", "name", "ask"), list(asks()), ids=lambda each: each if isinstance(each, str) else "")
def test_a_name_of_the_sites_page_is_known_or_warned_of(site: str, name: str, ask: Ask) -> None:
    profile = bundled(site).profile
    words = [refusal.message for refusal in refusals(profile, ask)]
    assert not [text for text in words if f"no partition {name}" in text or f"no QOS {name}" in text]
    assert not [text for text in words if name in text and "not an account" in text]
    unlisted = [each.name for each in unlisted_names(profile, ask) if each.name == name]
    assert bool(unlisted) == ((site, name) in NOT_LISTED)


def test_the_pages_of_ten_sites_at_least_are_read() -> None:
    assert len({*PARTITIONS, *QOS, *GPU_TYPES, *ACCOUNTS}) >= 10
    assert len(list(asks())) >= 100


def requests() -> Iterator[tuple[str, str]]:
    for site, (always, lines) in REQUESTS.items():
        yield from ((site, f"{always} {words}".strip()) for words in ";".join(lines).split(";"))


# What the page names and the profile does not: not for everybody, of another cluster, or named without any number.
UNLISTED = {
    *("-p kempner_dev", "-p gpu_requeue", "-p sapphire", "-p shared", "-p test", "-p interactive", "-p bricsonly"),
    *("-q qos_cpu-t3", "-q qos_cpu-t4", "-q qos_cpu-dev"),
}


@pytest.mark.parametrize(("site", "words"), list(requests()))
def test_an_ordinary_request_for_a_name_of_the_page_is_planned(site: str, words: str) -> None:
    time = () if "-t " in words else ("-t", "30")
    made = plan(*time, *words.split(), "--", "python", "train.py", site=site)
    told = [note.text for note in made.notes if note.warning and "does not know" in note.text]
    assert len(told) == sum(re.search(rf"{name}( |$)", words) is not None for name in UNLISTED)


def test_a_queue_of_restricted_access_says_what_to_type_where_it_is_open() -> None:
    words = ("-t", "30", "-p", "large", "-N", "65", "-g", "0")
    with pytest.raises(RequestError, match="large is not open: access is restricted") as refused:
        plan(*words, "--", "true", site="lonestar6")
    (option,) = re.findall(r"--site-set (\S+)", refused.value.hint or "")
    opened = load("lonestar6", overrides=overrides_from([option]))
    assert not list(refusals(opened.profile, Ask(partition="large", nodes=65, time_s=1800)))


def test_an_account_says_nothing_of_the_nodes_of_a_partition_that_the_profile_does_not_list() -> None:
    made = plan("-t", "30", "-A", "abc@h100", "-p", "zz9", "-g", "8", "--", "true", site="jean-zay")
    assert made.shape.cpus_per_task is None


def test_a_job_gets_the_kind_of_node_of_its_queue_that_has_as_many_gpus() -> None:
    words = ("-A", "kempner_grads", "-t", "30", "-p", "kempner_requeue")
    assert plan(*words, "-g", "8", "--", "true", site="kempner").shape.cpus_per_task == 16
    assert plan(*words, "-g", "4", "-c", "24", "--", "true", site="kempner")
    with pytest.raises(RequestError, match="= 136 CPUs per node, but a node of kempner_requeue has 128"):
        plan(*words, "-g", "8", "-c", "17", "--", "true", site="kempner")
    with pytest.raises(RequestError, match="9 GPUs per node are asked for, but a node of kempner_requeue has 8"):
        plan(*words, "-g", "9", "--", "true", site="kempner")


def test_more_memory_than_any_node_without_gpus_has_is_refused() -> None:
    with pytest.raises(RequestError, match="--mem 4001G, but 4096000M of a node can be had"):
        plan("-A", "def-x", "-t", "30", "-g", "0", "--mem", "4001G", "--", "true", site="narval")
    with pytest.raises(RequestError, match="--mem 2000G, but 510000M of a node can be had"):
        plan("-A", "def-x", "-t", "30", "-g", "1", "--mem", "2000G", "--", "true", site="narval")


@pytest.mark.parametrize(("site", "value"), [("jean-zay", "node=cpu"), ("kempner", "gpus=0")])
def test_a_partition_typed_for_a_job_without_gpus_is_not_taught_as_one_with_gpus(site: str, value: str) -> None:
    (unlisted,) = unlisted_names(bundled(site).profile, Ask(partition="zz9"))
    assert unlisted.assignment == f"partitions.zz9.{value}"
