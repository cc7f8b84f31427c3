"""What Slurm says lies over the profile of a site, and under what its user says; where both differ, both are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from muster.facts import Facts
from muster.policy.queues import choose_queue
from muster.policy.rules import Ask, doubt_of, refusals
from muster.sites.live import _memory, _qos, how_preempted, how_preempted_by_qos, leaves, live_layer
from muster.sites.load import choose_site, load
from muster.sites.site import SAID_HERE, Site
from muster.sites.when import Situation
from muster.slurm.cluster import QosLimit
from muster.slurm.cluster_facts import ClusterFacts
from sites.profiles import SITES, written
from slurm.clusters import accounting_text, cluster, kind_line, like_site, partition_line


def lumi(**words: str) -> ClusterFacts:
    """The cluster that the profile of lumi describes, with other words for one partition."""
    return like_site(load("lumi").profile, **{"standard-g": words})


def changed(known: ClusterFacts, name: str = "lumi") -> Site:
    return load(name, None, None, known)


@pytest.mark.parametrize("name", SITES)
def test_a_cluster_like_its_profile_contradicts_nothing(name: str) -> None:
    profile = load(name).profile
    if profile.partitions:
        assert [each.words() for each in changed(like_site(profile), name).disagreements] == []


def test_the_clusters_word_stands_over_the_profiles() -> None:
    site = changed(lumi(MaxTime="06:00:00"))
    assert site.profile.partitions["standard-g"].time_max == "06:00:00"
    assert site.origin("partitions.standard-g.time_max").words() == SAID_HERE
    (line,) = [each.words() for each in site.disagreements]
    assert line.startswith("partitions.standard-g.time_max: 06:00:00 (what Slurm says here), not 2-00:00:00 (")


@pytest.mark.parametrize(("days", "told"), [(2, None), (1, "7-00:00:00"), (9, "7-00:00:00")])
def test_a_limit_of_the_partitions_own_qos_may_be_what_the_profile_says(days: int, told: str | None) -> None:
    known = replace(lumi(MaxTime="7-00:00:00", QoS="own"), qos=(QosLimit("own", {"maxwall": days * 86400}),))
    partition = live_layer(load("lumi").profile, known).layer.table["partitions"].get("standard-g", {})
    assert partition.get("time_max") == told


@pytest.mark.parametrize(
    ("limit", "accounting", "doubt"),
    [
        ("UNLIMITED", True, "what Slurm says here: gpu-h100 has no limit of time"),
        ("UNLIMITED", False, ""),
        ("2-00:00:00", True, ""),
    ],
)
def test_a_limit_of_time_that_slurm_does_not_have_is_told_and_not_refused(
    limit: str, accounting: bool, doubt: str
) -> None:
    known = like_site(load("horeka").profile, **{"gpu-h100": {"MaxTime": limit}})
    site = changed(replace(known, qos=(QosLimit("normal", {}),) if accounting else ()), "horeka")
    ask = Ask(nodes=1, partition="gpu-h100", gpus_per_node=4, time_s=40 * 86400)
    (refusal,) = [each for each in refusals(site.profile, ask) if each.rule == "time-max"]
    assert doubt_of(site, refusal) == doubt


def test_what_was_typed_stands_over_the_clusters_word() -> None:
    site = load("lumi", None, {"partitions.standard-g.time_max": "02:00:00"}, lumi(MaxTime="06:00:00"))
    assert site.profile.partitions["standard-g"].time_max == "02:00:00"
    assert site.origin("partitions.standard-g.time_max").layer == "command line"


def test_what_slurm_cannot_say_stays_the_profiles() -> None:
    site, base = changed(lumi()), load("lumi")
    assert site.profile.modules == base.profile.modules
    assert site.profile.environment == base.profile.environment
    assert site.profile.fabric == base.profile.fabric


def test_a_partition_that_is_gone_is_gone() -> None:
    site = changed(cluster([partition_line("standard-g")], []))
    gone = set(load("lumi").profile.partitions) - {"standard-g"}
    assert gone
    assert not gone & set(site.profile.partitions)
    assert {f"partitions.{name}" for name in gone} <= {each.key for each in site.disagreements}


def test_a_rule_that_names_a_partition_that_is_gone_does_not_hold() -> None:
    site = load("lumi")
    job = Situation(nodes=1, gpus_per_node=1, time_s=600)
    named = choose_queue(site.profile, job).partition
    assert named is not None
    other = choose_queue(site.profile, job, there=frozenset(site.profile.partitions) - {named})
    assert other.partition is None
    assert other.gone == named


def test_another_node_loses_what_the_profile_says_of_its_inside() -> None:
    base = load("lumi")
    name = base.profile.partitions["standard-g"].node
    assert name is not None
    assert base.profile.nodes[name].numa
    site = changed(cluster([partition_line("standard-g")], [kind_line("standard-g", 4, 64, "gpu:a100:4")]))
    node = site.profile.nodes[name]
    assert (node.gpus, node.cores, node.numa, node.gpu_numa) == (4, 64, None, None)
    assert f"nodes.{name}.gpus" in {each.key for each in site.disagreements}


@pytest.mark.parametrize(
    ("shape", "memory", "keys"),
    [
        # LUMI keeps 8 of 64 cores and a part of the memory, and its profile counts cores.
        ("1:56:1", "500000", {"nodes.g.gpus"}),
        ("1:64:2", "600000", {"nodes.g.gpus"}),
        ("1:60:1", "500000", {"nodes.g.gpus", "nodes.g.cores"}),
        ("1:56:1", "100000", {"nodes.g.gpus", "nodes.g.memory_mib"}),
    ],
)
def test_a_node_counted_without_what_jobs_do_not_get_is_no_contradiction(
    shape: str, memory: str, keys: set[str]
) -> None:
    _, cores, threads = map(int, shape.split(":"))
    known = cluster(
        [partition_line("standard-g")],
        [kind_line("standard-g", 8, cores * threads, gres="gpu:4", shape=shape, memory=memory)],
        ClusterName="lumi",
    )
    found = {each.key for each in changed(known).disagreements}
    assert {key for key in found if key.startswith("nodes.g.")} == keys


def test_less_memory_than_the_profile_asks_for_is_less() -> None:
    site = changed(
        cluster([partition_line("main", Default="YES")], [kind_line("main", 4, 48, "gpu:a100:4", memory="9000")]),
        "narval",
    )
    assert site.profile.memory.mem == "9000M"
    assert site.profile.memory.mem_per_gpu == "2250M"


def test_a_default_of_memory_is_the_clusters() -> None:
    assert changed(lumi()).profile.memory.default_per_cpu is None
    known = cluster([partition_line("main")], [kind_line("main", 4)], DefMemPerCPU="256")
    assert changed(known, "generic").profile.memory.default_per_cpu == "256M"


def test_a_cluster_without_a_profile_is_described_by_its_own_word() -> None:
    known = cluster(
        [partition_line("gpu", Default="YES", MaxTime="1-00:00:00", MaxNodes="4"), partition_line("cpu")],
        [kind_line("gpu", 8, 64, "gpu:a100:4"), kind_line("cpu", 20, 128, shape="2:32:2")],
    )
    site = changed(known, "generic")
    gpu = site.profile.partitions["gpu"]
    assert (gpu.time_max, gpu.nodes_max, gpu.gpus, gpu.default) == ("1-00:00:00", 4, 4, True)
    assert gpu.node is not None
    assert (site.profile.nodes[gpu.node].gpus, site.profile.nodes[gpu.node].cores) == (4, 64)
    assert site.disagreements == ()
    assert not site.is_described
    assert changed(known, "narval").is_described


def test_a_partition_of_several_kinds_of_node_has_no_kind() -> None:
    known = cluster([partition_line("both")], [kind_line("both", 8, 64, "gpu:a100:4"), kind_line("both", 20, 128)])
    both = changed(known, "generic").profile.partitions["both"]
    assert (both.node, both.gpus, both.nodes) == (None, 4, 4)


@pytest.mark.parametrize(
    ("shape", "cpus", "expected"), [("1:64:1", 64, "cores"), ("2:32:2", 128, "threads"), ("2:32:2", 64, "cores")]
)
def test_a_cpu_is_what_slurm_counts(shape: str, cpus: int, expected: str) -> None:
    known = cluster([partition_line("main")], [kind_line("main", 4, cpus, "gpu:4", shape=shape)])
    assert (changed(known, "generic").profile.request.cpus or "cores") == expected


def preempting(preempt_type: str, qos: str = "", **words: str) -> ClusterFacts:
    return cluster(
        [partition_line("low", **words), partition_line("high", PriorityTier="10")],
        [kind_line("low", 4, gres="gpu:4"), kind_line("high", 4, gres="gpu:4")],
        accounting_text("", qos) if qos else None,
        PreemptType=preempt_type,
        PreemptMode="CANCEL",
    )


@pytest.mark.parametrize(
    ("preempt_type", "mode", "low", "high"),
    [
        ("preempt/partition_prio", "REQUEUE", "requeue", None),
        ("preempt/partition_prio", "CANCEL", "cancel", None),
        ("preempt/partition_prio", "GANG,SUSPEND", "suspend", None),
        ("preempt/partition_prio", "OFF", None, None),
        ("preempt/none", "REQUEUE", None, None),
    ],
)
def test_the_partition_of_a_lower_tier_is_preempted(
    preempt_type: str, mode: str, low: str | None, high: str | None
) -> None:
    known = preempting(preempt_type, PreemptMode=mode)
    partitions = {partition.name: how_preempted(known, partition) for partition in known.partitions}
    assert partitions == {"low": low, "high": high}
    assert changed(known, "generic").profile.partitions["low"].preempted == low


def test_a_higher_tier_on_other_nodes_preempts_nobody() -> None:
    known = cluster(
        [partition_line("low", PreemptMode="REQUEUE"), partition_line("high", PriorityTier="10")],
        [kind_line("low", 4, gres="gpu:4"), kind_line("high", 4, 128)],
        PreemptType="preempt/partition_prio",
    )
    assert how_preempted(known, known.partitions[0]) is None


def test_a_qos_that_another_may_preempt_is_preempted_in_its_own_way() -> None:
    known = preempting(
        "preempt/qos", "low|||||| requeue|".replace(" ", "") + "\nplain||||||cluster|\nhigh|||||low,plain|cluster|"
    )
    assert how_preempted_by_qos(known, "low") == "requeue"
    assert how_preempted_by_qos(known, "plain") == "cancel"
    assert how_preempted_by_qos(known, "high") is None
    assert how_preempted_by_qos(known, "absent") is None
    assert changed(known, "generic").profile.qos["low"].preempted == "requeue"


FACTS = Facts(hostname="login1", working_directory="/", home="/nowhere")


def test_the_clusters_name_tells_which_site_it_is() -> None:
    known = cluster([partition_line("main")], [], ClusterName="lumi")
    assert choose_site(None, FACTS, None, known).name == "lumi"
    other = cluster([partition_line("main")], [], ClusterName="tinker")
    assert choose_site(None, FACTS, None, other).name == "generic"


def test_a_site_that_is_somewhere_else_is_not_described_by_this_cluster() -> None:
    here = cluster([partition_line("main")], [], ClusterName="tinker")
    assert choose_site("lumi", FACTS, None, here).cluster is None
    assert choose_site("generic", FACTS, None, here).cluster == here
    assert choose_site("lumi", FACTS, None, cluster([partition_line("main")], [], ClusterName="lumi")).cluster


_QUEUE = 'muster_site = 1\nname = "mine"\ntitle = "t"\n[memory]\ndefault_per_cpu = "4000M"\n[qos.long]\n'


@pytest.mark.parametrize(
    ("said", "qos", "told"),
    [
        ("", "long", {}),
        ("", "long|2-00:00:00", {"time_max": "2-00:00:00"}),
        ('time_max = "2-00:00:00"\n', "long|2-00:00:00", {}),
        ('time_max = "1-00:00:00"\n', "long|2-00:00:00", {"time_max": "2-00:00:00"}),
        ("", "long||node=4", {"nodes_max": 4}),
        ("nodes_max = 4\n", "long||node=4", {}),
        ("nodes_max = 8\n", "long||node=4", {"nodes_max": 4}),
        ("", "long|||node=2", {"nodes_min": 2}),
    ],
)
def test_what_slurm_says_of_a_qos_stands_where_the_profile_says_otherwise(
    tmp_path: Path, said: str, qos: str, told: dict[str, Any]
) -> None:
    known = cluster([partition_line("q", Default="YES")], [kind_line("q", 1)], accounting_text("|||", qos))
    profile = load(str(written(tmp_path, _QUEUE + said))).profile
    assert _qos(profile, known, next(each for each in known.qos if each.name == "long")) == told


@pytest.mark.parametrize(("per_cpu", "told"), [("4000", {}), ("2000", {"default_per_cpu": "2000M"})])
def test_the_memory_that_a_cpu_brings_is_told_where_it_is_another(
    tmp_path: Path, per_cpu: str, told: dict[str, str]
) -> None:
    known = cluster([partition_line("q", Default="YES")], [kind_line("q", 1)], DefMemPerCPU=per_cpu)
    profile = load(str(written(tmp_path, _QUEUE))).profile
    assert {key: value for key, value in _memory(profile, known).items() if key == "default_per_cpu"} == told


def test_the_values_of_a_layer_have_their_paths() -> None:
    layer = {"without": ["a"], "a": {"b": 1, "without": 3, "c": {"d": [2]}}}
    assert list(leaves(layer)) == [(("a", "b"), 1), (("a", "without"), 3), (("a", "c", "d"), [2])]
