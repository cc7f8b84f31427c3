"""Guards the text that makes a lab: every configuration file, compared whole, and what the versions of Slurm change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from muster.errors import RequestError
from muster_lab import config
from muster_lab.accounting import sacctmgr_words
from muster_lab.spec import Account, HostGroup, LabPartition, LabSpec, Qos, parse_partition, parse_topology

GOLDEN = Path(__file__).parent / "golden"

PLAIN = LabSpec()
RICH = LabSpec(
    cluster="alps",
    groups=(
        HostGroup(
            count=12,
            prefix="nid",
            digits=6,
            gpu_type="gh200",
            cpus=288,
            memory_mib=870400,
            features=("gpu", "slingshot"),
        ),
        HostGroup(count=1, prefix="cpu", cpus=16, gpus=0, threads_per_core=2),
        HostGroup(count=1, prefix="viz", gpus=1),
    ),
    partitions=(
        LabPartition("normal", tuple(f"nid{number:06}" for number in range(1, 13)), options=(("MaxTime", "12:00:00"),)),
        LabPartition("debug", ("nid000001", "cpu1"), default=True, options=(("MaxTime", "00:30:00"), ("QOS", "debug"))),
    ),
    accounting=True,
    users=("alice",),
    accounts=(Account("open", ("alice",)), Account("closed", (), (("MaxJobs", "1"),))),
    qos=(Qos("debug", (("MaxWall", "30"), ("Flags", "DenyOnLimit"))),),
    job_submit_lua="function slurm_job_submit() return slurm.SUCCESS end\n",
    options=(("EnforcePartLimits", "ALL"), ("SlurmdTimeout", "60")),
)


def whole(spec: LabSpec, version: tuple[int, int]) -> str:
    """Every file of a lab as one text."""
    texts = {
        **config.files(spec, version),
        "hosts": config.hosts_file(spec),
        "passwd": config.passwd_file("root:x:0:0:root:/root:/bin/sh\nbin:x:2:2::/bin:/bin/sh\n", spec, "/home/me"),
        "group": config.group_file("root:x:0:\nalice:x:7:\n", spec),
    }
    if spec.accounting:
        texts["sacctmgr"] = "".join(" ".join(words) + "\n" for words in sacctmgr_words(spec))
    return "".join(f"==> {name} <==\n{text}" for name, text in texts.items())


each_spec = pytest.mark.parametrize(("name", "spec"), [("plain", PLAIN), ("rich", RICH)])


@each_spec
def test_the_files_of_a_lab_are_these(name: str, spec: LabSpec, golden: Callable[[Path, str], None]) -> None:
    golden(GOLDEN / f"{name}.txt", whole(spec, (26, 5)))


@each_spec
def test_the_versions_of_slurm_differ_in_the_plugin_for_cgroups_alone(name: str, spec: LabSpec) -> None:
    newest = whole(spec, (26, 5))

    assert newest.count("\nCgroupPlugin=disabled\n") == 1
    assert whole(spec, (24, 11)) == newest
    assert whole(spec, (22, 5)) == newest.replace("CgroupPlugin=disabled", "CgroupPlugin=cgroup/v1")


def test_a_sites_options_replace_ours_so_that_no_key_stands_there_twice() -> None:
    lines = config.slurm_conf(RICH).splitlines()
    assert "SlurmdTimeout=60" in lines
    keys = [line.partition("=")[0] for line in lines if not line.startswith(("NodeName", "PartitionName"))]
    assert len(set(keys)) == len(keys)


def test_the_first_partition_is_the_default_where_none_says_so() -> None:
    spec = LabSpec(partitions=(parse_partition("a", PLAIN.hosts), parse_partition("b", PLAIN.hosts)))
    lines = [line for line in config.slurm_conf(spec).splitlines() if "Default=YES" in line]
    assert [line.split()[0] for line in lines] == ["PartitionName=a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tree:3", "SwitchName=s1 Nodes=node[1-3]\nSwitchName=s2 Nodes=node4\nSwitchName=top Switches=s[1-2]\n"),
        ("block:2", "BlockName=b1 Nodes=node[1-2]\nBlockName=b2 Nodes=node[3-4]\nBlockSizes=2\n"),
    ],
)
def test_hosts_stand_under_switches_or_in_blocks(text: str, expected: str) -> None:
    spec = LabSpec(topology=parse_topology(text), slurm="24.11")
    assert config.files(spec, (24, 11))["topology.conf"] == expected
    assert f"TopologyPlugin=topology/{text.partition(':')[0]}\n" in config.slurm_conf(spec)


@pytest.mark.parametrize("text", ["ring:2", "tree", "tree:0", "block:x", "block:2:2"])
def test_a_topology_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="form tree:N or block:N"):
        parse_topology(text)


def test_a_slurm_without_blocks_is_refused() -> None:
    assert LabSpec(topology=("tree", 2)).slurm == "system"
    with pytest.raises(RequestError, match=r"came with Slurm 23\.11"):
        LabSpec(topology=("block", 2))


def test_addresses_are_distinct_up_to_the_largest_lab() -> None:
    spec = LabSpec(groups=(HostGroup(1000),))
    entries = [line.split() for line in config.hosts_file(spec).splitlines()]
    addresses = [entry[0] for entry in entries]
    assert len(set(addresses)) == len(addresses) == 2 * 1001 + 3
    assert config.address(spec, "node1000") in addresses
    assert [entry[0] for entry in entries if "node1000" in entry] == [config.address(spec, "node1000")]


def test_packets_of_a_large_lab_pass_through_the_login_host() -> None:
    small, large = (LabSpec(groups=(HostGroup(count),)) for count in (128, 129))
    assert not config.is_routed(small)
    assert config.is_routed(large)
    assert "SlurmdTimeout=10\n" in config.slurm_conf(small)
    assert "MessageTimeout" not in config.slurm_conf(small)
    assert "SlurmdTimeout=60\nMessageTimeout=60\n" in config.slurm_conf(large)
