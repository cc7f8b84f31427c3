"""Guards what a lab can be asked to be: what is read, and what is refused before anything is made."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import MusterError, RequestError, UnknownName
from muster_lab.spec import Account, HostGroup, LabPartition, LabSpec, Qos, parse_partition

HOSTS = ("node1", "node2", "node3")


@pytest.mark.parametrize(
    ("text", "partition"),
    [
        ("debug", LabPartition("debug", HOSTS)),
        ("debug:", LabPartition("debug", HOSTS)),
        ("all:nodes=3", LabPartition("all", HOSTS)),
        (
            "debug:nodes=2,time=30,default",
            LabPartition("debug", HOSTS[:2], default=True, options=(("MaxTime", "00:30:00"),)),
        ),
        ("long:time=2-00", LabPartition("long", HOSTS, options=(("MaxTime", "2-00:00:00"),))),
        ("free:time=UNLIMITED", LabPartition("free", HOSTS, options=(("MaxTime", "UNLIMITED"),))),
        (
            "few:accounts=a+b,qos=x,max-nodes=2",
            LabPartition("few", HOSTS, options=(("AllowAccounts", "a,b"), ("AllowQos", "x"), ("MaxNodes", "2"))),
        ),
        ("lean:memory-per-cpu=2G", LabPartition("lean", HOSTS, options=(("DefMemPerCPU", "2048"),))),
    ],
)
def test_a_partition_is_read(text: str, partition: LabPartition) -> None:
    assert parse_partition(text, HOSTS) == partition


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "cannot name a partition"),
        ("DEFAULT", "cannot name a partition"),
        ("a b", "cannot name a partition"),
        ("a\nNodeName=x", "cannot name a partition"),
        ("a:nodes=4", "wants 4 hosts of 3"),
        ("a:nodes=0", "not a count"),
        ("a:nodes=-1", "not a count"),
        ("a:nodes", "'nodes'"),
        ("a:time", "named 'time'"),
        ("a:time=soon", "not a time limit"),
        ("a:tiem=30", "'tiem=30'"),
        ("a:accounts=x y", "'x y'"),
        ("a:qos=", "''"),
    ],
)
def test_a_partition_that_cannot_be_is_refused_with_a_hint(text: str, complaint: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_partition(text, HOSTS)
    assert complaint in caught.value.message
    assert caught.value.hint


@given(st.text(alphabet="ab:=,+-0123 \n\"'$nodestimaxful", max_size=40))
def test_no_text_makes_a_partition_that_writes_a_second_line(text: str) -> None:
    try:
        partition = parse_partition(text, HOSTS)
    except MusterError:
        return
    for word in (partition.name, *(value for _, value in partition.options)):
        assert word
        assert not set(word) & set(" \n\"'$#=")


BAD_SPECS: dict[str, Callable[[], object]] = {
    "a lab has 1 to 1000 hosts, not 0": lambda: LabSpec(groups=(HostGroup(count=0),)),
    "a lab has 1 to 1000 hosts, not 3": lambda: LabSpec(groups=(HostGroup(count=4), HostGroup(count=-1))),
    "a lab has 1 to 1000 hosts, not -4": lambda: LabSpec(groups=(HostGroup(count=-4),)),
    "a lab has 1 to 1000 hosts, not 1001": lambda: LabSpec(groups=(HostGroup(count=1001),)),
    "a lab's host has 1 to 4096 CPUs, not 0": lambda: LabSpec(groups=(HostGroup(cpus=0),)),
    "a lab's host has 0 to 256 GPUs, not -1": lambda: LabSpec(groups=(HostGroup(gpus=-1),)),
    "a lab's host has 1 to 1099511627776 MiB of memory, not 0": lambda: LabSpec(groups=(HostGroup(memory_mib=0),)),
    "9 CPUs cannot be divided into 2 threads per core": lambda: LabSpec(
        groups=(HostGroup(cpus=9, threads_per_core=2),)
    ),
    "'a:b' cannot be a GPU type": lambda: LabSpec(groups=(HostGroup(gpu_type="a:b"),)),
    "'a\\nb' cannot be a host name": lambda: LabSpec(groups=(HostGroup(prefix="a\nb"),)),
    "the host 'node1' is there twice": lambda: LabSpec(groups=(HostGroup(), HostGroup(count=1))),
    "'../x' cannot name a lab": lambda: LabSpec(name="../x"),
    "'' cannot name a lab": lambda: LabSpec(name=""),
    "'-rf' cannot name a lab": lambda: LabSpec(name="-rf"),
    "there is no Slurm version for a lab named '19.05'": lambda: LabSpec(slurm="19.05"),
    "a lab needs a partition": lambda: LabSpec(partitions=()),
    "two partitions cannot both be the default": lambda: LabSpec(
        partitions=(LabPartition("a", default=True), LabPartition("b", default=True))
    ),
    "the partition 'a' is there twice": lambda: LabSpec(partitions=(LabPartition("a"), LabPartition("a"))),
    "there is no host for partition a named 'node9'": lambda: LabSpec(partitions=(LabPartition("a", ("node9",)),)),
}


@pytest.mark.parametrize("complaint", BAD_SPECS)
def test_a_lab_that_cannot_be_is_refused_with_a_hint(complaint: str) -> None:
    with pytest.raises(RequestError) as caught:
        BAD_SPECS[complaint]()
    assert caught.value.message == complaint
    assert caught.value.hint


def test_a_version_that_is_not_known_offers_those_that_are() -> None:
    with pytest.raises(UnknownName) as caught:
        LabSpec(slurm="24.12")
    assert caught.value.hint == "did you mean '24.11'?"


def test_a_spec_is_the_same_after_being_written_down() -> None:
    spec = LabSpec(
        groups=(HostGroup(2, gpu_type="a100", features=("ib",)), HostGroup(1, prefix="cpu", gpus=0)),
        partitions=(LabPartition("a", ("cpu1",), options=(("MaxTime", "1"),)), LabPartition("b")),
        accounts=(Account("x", ("alice",), (("MaxJobs", "2"),)),),
        qos=(Qos("short", (("MaxWall", "10"),)),),
        job_submit_lua="return 'é'",
    )
    assert msgspec.json.decode(msgspec.json.encode(spec), type=LabSpec) == spec
