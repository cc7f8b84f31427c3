"""What a cluster, its accounting and a profile refuse: one line for each condition that decides something.

Of two lines beside each other the second mostly lacks one thing that the first has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from muster.policy.cluster import choose_partition, refusals_here
from muster.policy.given import kind_for, qos_of
from muster.policy.masks import bind_ranks
from muster.policy.queues import choose_queue, kind_of, may_have_type
from muster.policy.rules import Ask, refusals
from muster.sites.load import load
from muster.sites.when import Situation
from muster.slurm.cluster_facts import ClusterFacts
from muster.units import Memory
from sites.profiles import HEAD, bundled, written
from slurm.clusters import accounting_text, cluster, kind_line, partition_line

_QOS = "normal|\nlong|\nhouse|"
_CHEM = "chem|chem||normal,long|"


def accounts(rows: str, enforced: str = "associations,limits,qos", qos: str = _QOS, **words: str) -> ClusterFacts:
    """One partition with GPUs, and accounting."""
    config = {"SelectTypeParameters": words.pop("counts")} if "counts" in words else {}
    memory = words.pop("memory", "16384")
    return cluster(
        [partition_line("main", Default="YES", **words)],
        [kind_line("main", 4, 64, gres="gpu:a100:4", memory=memory)],
        accounting_text(rows, qos),
        AccountingStorageEnforce=enforced,
        **config,
    )


@pytest.mark.parametrize(
    ("known", "asked", "told"),
    [
        (accounts(_CHEM), {"qos": "house"}, "the QOS house is not yours on this cluster (yours: normal, long) | --qos"),
        (accounts(_CHEM), {"qos": "long"}, None),
        (accounts(_CHEM, "limits"), {"qos": "house"}, None),
        (accounts("chem|chem|||"), {"qos": "house"}, None),
        (accounts("|chem||normal,long|"), {"qos": "house"}, "the QOS house is not yours on this cluster"),
        (accounts(_CHEM, AllocNodes="login1"), {}, None),  # which host this is, is not known
        (replace(accounts(_CHEM, AllocNodes="login1"), host="login1"), {}, None),
        (replace(accounts(_CHEM, AllocNodes="login1"), host="n1"), {}, "main takes jobs from the hosts login1 only"),
        (accounts(_CHEM, ReqResv="YES"), {"partition": "main"}, "main takes jobs of a reservation only"),
        (accounts(_CHEM, ReqResv="YES"), {"partition": "main", "flags": {"reservation": "course"}}, None),
        (accounts(_CHEM, RootOnly="YES"), {}, "main takes jobs of administrators only"),
        (replace(accounts(_CHEM, RootOnly="YES"), user_groups=("root",)), {}, None),
        (accounts(_CHEM, AllowGroups="bob"), {}, "main is for the groups bob, and you are in none of them"),
        (accounts(_CHEM, AllowGroups="ada,bob"), {}, None),
        (accounts(_CHEM, AllowQos="house,long"), {"qos": "normal"}, "main does not take the QOS normal | --qos long"),
        (accounts(_CHEM, AllowQos="house"), {"qos": "normal"}, "main does not take the QOS normal | its QOS: house"),
        (accounts(_CHEM, DenyQos="normal"), {"qos": "normal"}, "main does not take the QOS normal | no other"),
        (accounts(_CHEM, DenyAccounts="chem"), {"account": "chem"}, "main does not take the account chem | no other"),
        (accounts(_CHEM, DenyAccounts="bio"), {"account": "chem"}, None),
        (accounts(_CHEM, JobDefaults="DefMemPerGPU=8192"), {"gpus_per_node": 4}, "each brings 8192 MiB (DefMemPerGPU)"),
        (accounts(_CHEM, JobDefaults="DefMemPerGPU=8192"), {"gpus_per_node": 2}, None),
        (accounts(_CHEM, JobDefaults="DefMemPerGPU=8192", counts="CR_CORE"), {"gpus_per_node": 4}, None),
        (accounts(_CHEM, JobDefaults="DefMemPerGPU=8192", memory="0"), {"gpus_per_node": 4}, None),
        (
            accounts(_CHEM, qos="normal|;maxtres=cpu=3 flags=DenyOnLimit"),
            {"ntasks_per_node": 4},
            "| 3 at most on all nodes together",
        ),
        (
            accounts(_CHEM, qos="normal|;maxtres=cpu=4 flags=DenyOnLimit"),
            {"ntasks_per_node": 4, "cpus_per_task": 2},
            "| -c 1",
        ),
        (
            accounts(_CHEM, qos="normal|;maxtresmins=gres/gpu=60 flags=DenyOnLimit"),
            {"gpus_per_node": 4, "time_s": 3600},
            "| fewer nodes, or a shorter --time",
        ),
    ],
)
def test_a_cluster_decides(known: ClusterFacts, asked: dict[str, Any], told: str | None) -> None:
    found = [f"{each.message} | {each.hint}" for each in refusals_here(known, Ask(**asked))]
    assert len(found) == (told is not None), found
    assert told is None or told in found[0], found


_UNTOLD = [partition_line("a", Default="YES", AllowAccounts="x"), partition_line("untold")]


@pytest.mark.parametrize(
    ("partitions", "kinds", "asked", "chosen"),
    [
        (_UNTOLD, [], {}, "untold"),
        (_UNTOLD, [], {"gpus_per_node": 2}, "untold"),
        (_UNTOLD, [], {"gpus_per_node": 2, "gpu_type": "h100"}, "untold"),
        (_UNTOLD, [kind_line("untold", 4)], {"gpus_per_node": 2}, None),
        (_UNTOLD, [kind_line("untold", 4, gres="gpu:4")], {}, None),
        (
            [partition_line("staff", AllowGroups="ada"), partition_line("all")],
            [kind_line("staff", 9, gres="gpu:4"), kind_line("all", 4, gres="gpu:4")],
            {"gpus_per_node": 1},
            "all",
        ),
    ],
)
def test_a_partition_of_which_little_is_told_takes_a_job(
    partitions: list[str], kinds: list[str], asked: dict[str, Any], chosen: str | None
) -> None:
    assert choose_partition(cluster(partitions, kinds), Ask(**asked)).partition == chosen


@pytest.mark.parametrize(("constraint", "nodes"), [(None, 9), ("ib", 2), ("ib&big", 1), ("nothing", 9)])
def test_the_kind_of_node_has_the_features_that_are_asked_for(constraint: str | None, nodes: int) -> None:
    lines = [kind_line("main", 9, 8), kind_line("main", 2, 16, features="ib"), kind_line("main", 1, 32, "", "ib,big")]
    kind = kind_for(cluster([partition_line("main", Default="YES")], lines), None, Ask(constraint=constraint))
    assert kind is not None
    assert kind.nodes == nodes


@pytest.mark.parametrize(
    ("row", "qos"),
    [
        ("chem|chem||long,normal|", "normal"),
        ("chem|chem||long|", "long"),
        ("chem|chem||long,house|", None),
        ("chem|chem||long,normal|house", "house"),
    ],
)
def test_the_qos_that_slurm_gives_unasked(row: str, qos: str | None) -> None:
    assert qos_of(accounts(row), Ask()) == qos


_TYPES = (
    '[nodes.a]\ngpus = 4\ngpu_type = "a100"\n[nodes.h]\ngpus = 4\ngpu_type = "h100"\n'
    "[nodes.c]\ngpus = 0\n[nodes.g]\ngpus = 4\n"
    '[partitions.old]\nnode = "a"\ndefault = true\n[partitions.untold]\n[partitions.none]\ngpus = 0\n'
    '[partitions.cpu]\nnode = "c"\n[partitions.some]\nnode = "g"\n[partitions.new]\nnode = "h"\n'
)


@pytest.mark.parametrize(
    ("partition", "may"), [("old", False), ("untold", True), ("none", False), ("cpu", False), ("some", True)]
)
def test_a_partition_may_have_a_type_that_its_profile_does_not_rule_out(
    tmp_path: Path, partition: str, may: bool
) -> None:
    profile = load(str(written(tmp_path, HEAD + _TYPES))).profile
    assert may_have_type(profile, partition, "h100") is may
    assert choose_queue(profile, Situation(gpus_per_node=1), gpu_type="h100").partition == "new"


_OLD = '[nodes.a]\ngpus = 4\ngpu_type = "a100"\n[partitions.old]\nnode = "a"\n'
_NEW = '[nodes.h]\ngpus = 4\ngpu_type = "h100"\n[partitions.new]\nnode = "h"\n'
_H100 = {"partition": "old", "gpu_type": "h100", "gpus_per_node": 1}
_ZERO = '[request]\nforbidden = [{ flag = "mem", value = "0", reason = "ask for what you need" }]\n'


@pytest.mark.parametrize(
    ("profile", "asked", "told"),
    [
        (_OLD, _H100, "no partition has GPUs of type h100; there are a100 (old)"),
        (f'{_OLD}[nodes.g]\ngpus = 4\n[partitions.some]\nnode = "g"\n', _H100, "old has GPUs of type a100, none of"),
        (f"{_OLD}{_NEW}", _H100, "old has GPUs of type a100, none of type h100"),
        (f"{_OLD}{_NEW}open = false\n", _H100, "no partition has GPUs of type h100; there are a100 (old)"),
        (_ZERO, {"mem": "0"}, "--mem=0: ask for what you need"),
        (_ZERO, {"mem": "1G"}, None),
        (f"{_ZERO}[memory]\nzero_allowed = false\n", {"mem": "0"}, "--mem=0 is refused here"),
    ],
)
def test_a_profile_refuses(tmp_path: Path, profile: str, asked: dict[str, Any], told: str | None) -> None:
    asked = {**asked, **({"mem": Memory.parse(asked["mem"])} if "mem" in asked else {})}
    found = [each.message for each in refusals(load(str(written(tmp_path, HEAD + profile))).profile, Ask(**asked))]
    assert len(found) == (told is not None), found
    assert told is None or found[0].startswith(told), found


@pytest.mark.parametrize(("needs_whole", "has_whole", "bound"), [(True, False, 0), (True, True, 1), (False, False, 1)])
def test_masks_are_for_whole_nodes_where_the_site_says_so(needs_whole: bool, has_whole: bool, bound: int) -> None:
    site = bundled("lumi").profile
    site = replace(site, binding=replace(site.binding, needs_whole_node=needs_whole))
    assert len(bind_ranks(site, site.nodes["g"], ranks=8, whole_node=has_whole).flags) == bound


@pytest.mark.parametrize(("partition", "kind"), [("a", "a"), ("b", "b"), ("both", "b"), (None, "a")])
def test_of_kinds_with_one_type_of_gpu_a_job_gets_that_of_its_queue(
    tmp_path: Path, partition: str | None, kind: str
) -> None:
    nodes = "".join(
        f'[nodes.{name}]\ngpus = 4\ngpu_type = "a100"\n[partitions.{name}]\nnode = "{name}"\n' for name in "ab"
    )
    text = f'{HEAD}{nodes}[partitions.both]\nnode = "b"\nother_nodes = ["a"]\n'
    assert kind_of(load(str(written(tmp_path, text))).profile, partition=partition, gpu_type="a100") == kind
