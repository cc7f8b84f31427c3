"""What is right and what is wrong in a profile, and what Slurm's word adds to it: one line for each condition.

Of two lines beside each other the second mostly lacks one thing that the first has.
"""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from launch.plans import FACTS
from muster.errors import ProfileError
from muster.sites.heads import evidence_from
from muster.sites.live import how_preempted, live_layer
from muster.sites.load import load
from muster.sites.schema import SiteVariable, When
from muster.sites.tell import remarks
from muster.sites.when import Situation, applies, workloads_of
from slurm.clusters import accounting_text, cluster, kind_line, partition_line

from .profiles import HEAD, written

_TOMORROW = dt.date.today() + dt.timedelta(days=1)  # noqa: DTZ011  # dates of a profile have no zone
_SOURCE = "[sources.g]\ntitle = 't'\nat = 'https://docs.example.org'\ntrust = 'D'\nchecked = "
_Q = "[qos.q]\n[qos.r]\n"
_RULE = "[[queue_rules]]\nreason = 'r'\n"


def _rules(*conditions: str) -> str:
    return "".join(f"{_RULE}when = {{ {condition} }}\n" for condition in conditions)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[launch]\nallowed = ['srun']\n", None),
        ("[launch]\nallowed = ['srun']\npreferred = 'srun'\n", None),
        ("[rendezvous]\nport_low = 30000\nport_high = 30000\n", None),
        ("[rendezvous]\nhost = 'interface'\n", "no interface is given"),
        ("[rendezvous]\nhost = 'interface'\ninterface = 'ib0'\n", None),
        ("[nodes.g]\nnuma = ['0-7']\ngpu_numa = [0, 0]\n", None),
        ("[nodes.g]\ngpus = 1\ngpu_numa = [0]\n", "names a domain beyond the 0 of `numa`"),
        ("[nodes.g]\ngpus = 4\ncores_per_gpu = 32\n", None),
        ("[nodes.g]\ngpus = 4\ncores_per_gpu = 16\ncores = 64\n", None),
        (f"{_SOURCE}{_TOMORROW}\n", None),
        (f"{_SOURCE}{_TOMORROW + dt.timedelta(days=1)}\n", "is in the future"),
        ("[request]\naccount_pattern = 'proj_[0-9]+'\n", None),
        ("[request]\naccount_pattern = 'proj_[0-9]+'\naccount_example = 'proj_1'\n", None),
        ("[request]\naccount_pattern = 'proj_[0-9]+'\naccount_example = 'proj'\n", "proj is none of the accounts"),
        (f"[partitions.p]\n{_RULE}qos = 'q'\n", None),  # it does not list the QOS
        (f"[qos.r]\n{_RULE}qos = 'q'\n", "no QOS named 'q'"),
        (f"[partitions.p]\nqos = ['q', 'r']\n{_Q}{_RULE}partition = 'p'\nqos = 'r'\n", None),
        (
            f"[partitions.p]\nqos = ['q']\n{_Q}{_RULE}partition = 'p'\nqos = 'r'\n",
            "p takes jobs of the QOS q, but the rule",
        ),
        ("[partitions.sources]\nsource = 'nobody'\n", "no source named 'nobody'"),
        ("[containers.facts]\nengine = 'apptainr'\n", "no container engine named 'apptainr'"),
        (_rules("trial = true", "trial = false"), None),
        (_rules("trial = true", "trial = true, nodes_max = 2"), "never matches: rule 1"),
        (_rules("launchers = ['srun']", "launchers = ['srun', 'mpirun']"), None),
        (_rules("launchers = ['srun', 'mpirun']", "launchers = ['srun']"), "never matches: rule 1"),
        (_rules("launchers = ['srun']", "launchers = ['srun']"), "never matches: rule 1"),
        (_rules("time_max = '01:00:00'", "time_max = '02:00:00'"), None),
        (_rules("time_max = '01:00:00'", "time_max = 'UNLIMITED'"), None),
        (_rules("time_max = 'UNLIMITED'", "time_max = '02:00:00'"), "never matches: rule 1"),
    ],
)
def test_a_profile_is_right_or_says_what_is_wrong(tmp_path: Path, text: str, says: str | None) -> None:
    with pytest.raises(ProfileError, match=says) if says else nullcontext():
        load(str(written(tmp_path, HEAD + text)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[partitions.p]\n", "no partition is the default"),
        ("[partitions.p]\ndefault = true\n", None),
        (f"[partitions.p]\n{_RULE}partition = 'p'\n", None),
        ("[nodes.g]\ncores = 64\nthreads_per_core = 2\n", "a core of nodes.g has 2 threads"),
        ("[nodes.g]\nthreads_per_core = 2\n", None),
        ("[nodes.g]\ncores = 64\nthreads_per_core = 1\n", None),
        ("[nodes.g]\ngpus = 4\n", "ask for no CPUs (`cores`), so"),
        ("[nodes.g]\ngpus = 4\ncores_per_gpu = 4\n", None),
        ("[memory]\npolicy = 'per-gpu'\n[nodes.g]\ngpus = 4\ncores = 4\n", "ask for no memory (`mem_per_gpu`), so"),
        ("[memory]\npolicy = 'per-gpu'\nmem_per_gpu = '4G'\n[nodes.g]\ngpus = 4\ncores = 4\n", None),
    ],
)
def test_what_the_writer_of_a_profile_may_not_mean_is_told(tmp_path: Path, text: str, said: str | None) -> None:
    counted = "cores" if "threads" in text else "threads"
    told = list(remarks(load(str(written(tmp_path, f"{HEAD}[request]\ncpus = '{counted}'\n{text}")))))
    assert len(told) == (said is not None), told
    assert said is None or said in told[0], told


_P = "[partitions.p]\n"
_G = "[nodes.g]\ngpus = 4\ncores = 64\nmemory_mib = 1000\n[partitions.p]\nnode = 'g'\n"


@pytest.mark.parametrize(
    ("text", "words", "qos", "path", "value"),
    [
        ("[qos.q]\ntime_max = '01:00:00'\n", {}, "q|;maxwall=02:00:00", "qos.q.time_max", "02:00:00"),
        ("[qos.q]\ntime_max = '01:00:00'\n", {}, "q|;maxwall=01:00:00", "qos.q", None),
        ("[qos.q]\ntime_max = '01:00:00'\n", {}, "q|", "qos.q", None),
        ("[qos.q]\nnodes_max = 2\n", {}, "q|;maxtres=node=3", "qos.q.nodes_max", 3),
        ("[qos.q]\nnodes_max = 2\n", {}, "q|;maxtres=node=2", "qos.q", None),
        ("[qos.q]\n", {}, "q|;mintres=node=2", "qos.q.nodes_min", 2),
        ("[qos.q]\n", {}, "q|", "without", None),
        ("[qos.q]\n", {}, "r|", "without", ["qos.q"]),
        (f"{_P}time_default = '01:00:00'\n", {"DefaultTime": "02:00:00"}, "", "partitions.p.time_default", "02:00:00"),
        (f"{_P}time_default = '01:00:00'\n", {"DefaultTime": "01:00:00"}, "", "partitions.p.time_default", None),
        (f"{_P}nodes_min = 2\n", {"MinNodes": "2"}, "", "partitions.p.nodes_min", None),
        (f"{_P}nodes_min = 3\n", {"MinNodes": "2"}, "", "partitions.p.nodes_min", 2),
        (_P, {"MinNodes": "1"}, "", "partitions.p.nodes_min", None),
        (f"{_P}default = true\n", {"Default": "YES"}, "", "partitions.p.default", None),
        (_P, {"Default": "YES"}, "", "partitions.p.default", True),
        (f"{_P}default = true\n", {"Default": "NO"}, "", "partitions.p.default", False),
        (_P, {"OverSubscribe": "EXCLUSIVE"}, "", "partitions.p.sharing", "exclusive"),
        (f"{_P}sharing = 'exclusive'\n", {"OverSubscribe": "EXCLUSIVE"}, "", "partitions.p.sharing", None),
        (f"{_P}qos = ['q', 'r']\n{_Q}", {}, "q|", "partitions.p.qos", ["q"]),
        (f"{_P}qos = ['q', 'r']\n{_Q}", {"AllowQos": "r"}, "q|\nr|", "partitions.p.qos", ["r"]),
        (f"{_P}qos = ['q', 'r']\n{_Q}", {}, "q|\nr|", "partitions.p.qos", None),
        (f"{_P}qos = ['q', 'r']\n{_Q}", {}, "", "partitions.p.qos", None),
        (f"{_P}preempted = 'requeue'\n", {"PreemptMode": "REQUEUE"}, "", "partitions.p.preempted", None),
        (f"{_P}preempted = 'cancel'\n", {"PreemptMode": "REQUEUE"}, "", "partitions.p.preempted", "requeue"),
        ("", {"TotalNodes": "4"}, "", "partitions.p.nodes", 4),
        ("", {"TotalNodes": "0"}, "", "partitions.p.nodes", None),
        ("", {}, "", "request.features", ["ib"]),
        ("[request]\nfeatures = ['x']\n", {}, "", "request.features", None),
        (_G, {}, "", "request.features", None),
        (_G, {}, "", "nodes.g", {}),
        (_G.replace("memory_mib = 1000\n", ""), {}, "", "nodes.g.memory_mib", 1000),
        (_G.replace("gpus = 4\n", ""), {}, "", "nodes.g.gpus", 4),
    ],
)
def test_what_slurm_says_stands_over_a_profile_where_it_is_another_word(
    tmp_path: Path, text: str, words: dict[str, str], qos: str, path: str, value: Any
) -> None:
    rank = "preempt/partition_prio"
    known = cluster(
        [partition_line("p", **words), partition_line("top", PriorityTier="9", PreemptMode="OFF")],
        [kind_line("p,top", 4, 64, gres="gpu:4", features="ib", memory="1000")],
        accounting_text("a|a||", qos) if qos else None,
        PreemptType=rank,
    )
    told: Any = live_layer(load(str(written(tmp_path, HEAD + text))).profile, known).layer.table
    for name in path.split("."):
        told = (told or {}).get(name)
    assert told == value


@pytest.mark.parametrize(
    ("counts", "asks", "form"),
    [
        ("select/cons_tres", "gpus-per-node", None),
        ("select/linear", "gpus-per-node", "gres"),
        ("select/linear", "gres", None),
    ],
)
def test_gpus_are_asked_for_as_resources_where_slurm_does_not_count_them(
    tmp_path: Path, counts: str, asks: str, form: str | None
) -> None:
    known = cluster([partition_line("p", MaxCPUsPerNode="4")], [kind_line("p", 1)], SelectType=counts)
    profile = load(str(written(tmp_path, f"{HEAD}[request]\ngpus = '{asks}'\n"))).profile
    assert live_layer(profile, known).layer.table.get("request", {}).get("gpus") == form


@pytest.mark.parametrize(("memory", "usable"), [("900", "900M"), ("1000", None), ("0", None)])
def test_the_memory_for_jobs_is_no_more_than_slurm_has(tmp_path: Path, memory: str, usable: str | None) -> None:
    known = cluster([partition_line("p")], [kind_line("p", 4, 64, gres="gpu:4", memory=memory)])
    profile = load(str(written(tmp_path, HEAD + _G.replace("[part", "memory_usable = '1000M'\n[part")))).profile
    assert live_layer(profile, known).layer.table.get("nodes", {}).get("g", {}).get("memory_usable") == usable


@pytest.mark.parametrize(
    ("memory", "usable", "told"),
    [("950", "900M", False), ("900", "900M", False), ("899", "900M", True), ("950", "", True)],
)
def test_less_memory_than_jobs_may_use_contradicts_the_profile(
    tmp_path: Path, memory: str, usable: str, told: bool
) -> None:
    known = cluster([partition_line("p")], [kind_line("p", 4, 64, gres="gpu:2", memory=memory)])
    text = _G.replace("[part", f"memory_usable = '{usable}'\n[part") if usable else _G
    site = load(str(written(tmp_path, HEAD + text)), None, None, known)
    assert any(each.key == "nodes.g.memory_mib" for each in site.disagreements) is told


@pytest.mark.parametrize(("own", "how"), [("spot", "requeue"), ("N/A", None)])
def test_a_partition_without_a_qos_of_its_own_is_not_preempted_by_qos(own: str, how: str | None) -> None:
    known = cluster(
        [partition_line("p", QoS=own)],
        [kind_line("p", 1)],
        accounting_text("a|a||", "spot|;preemptmode=requeue\ntop|;preempt=spot"),
        PreemptType="preempt/qos",
        PreemptMode="REQUEUE",
    )
    assert how_preempted(known, known.partitions[0]) == how


@pytest.mark.parametrize(("said", "told"), [("requeue", {}), ("cancel", {"spot": {"preempted": "requeue"}})])
def test_how_a_qos_is_preempted_is_told_where_the_profile_says_otherwise(
    tmp_path: Path, said: str, told: dict[str, Any]
) -> None:
    known = cluster(
        [partition_line("p")],
        [kind_line("p", 1)],
        accounting_text("a|a||", "spot|;preemptmode=requeue\ntop|;preempt=spot"),
        PreemptType="preempt/qos",
    )
    profile = load(str(written(tmp_path, f"{HEAD}[qos.top]\n[qos.spot]\npreempted = '{said}'\n"))).profile
    assert live_layer(profile, known).layer.table.get("qos", {}) == told


@pytest.mark.parametrize(
    ("cpus", "threads", "asked", "of_node"),
    [("cores", 2, "threads", None), ("threads", 2, None, None), ("cores", 1, "threads", 2)],
)
def test_slurm_s_own_count_of_cpus_decides(
    tmp_path: Path, cpus: str, threads: int, asked: str | None, of_node: int | None
) -> None:
    known = cluster([partition_line("p")], [kind_line("p", 4, 128, gres="gpu:4", shape="2:32:2", memory="1000")])
    text = _G.replace("cores = 64", f"cores = 64\nthreads_per_core = {threads}")
    profile = load(str(written(tmp_path, f"{HEAD}[request]\ncpus = '{cpus}'\n{text}"))).profile
    table = live_layer(profile, known).layer.table
    assert table.get("request", {}).get("cpus") == asked
    assert table.get("nodes", {}).get("g", {}).get("threads_per_core") == of_node


@pytest.mark.parametrize(
    ("variable", "slurm", "name"), [("a", "b", "a"), ("", "b", "b"), ("a", None, "a"), ("", None, None)]
)
def test_the_name_of_the_cluster_is_that_of_the_job_else_what_slurm_says(
    variable: str, slurm: str | None, name: str | None
) -> None:
    known = None if slurm is None else replace(cluster([], []), name=slurm)
    facts = replace(FACTS, environment={"SLURM_CLUSTER_NAME": variable})
    assert evidence_from(facts, (), known).cluster_name == name


@pytest.mark.parametrize(("verdict", "known"), [("offered", {"ray"}), ("kept", {"ray"}), ("dropped", set())])
def test_a_workload_for_which_the_site_does_nothing_is_none(tmp_path: Path, verdict: Any, known: set[str]) -> None:
    variable = f"[[environment]]\nname = 'A'\nvalue = '1'\nreason = 'r'\nverdict = '{verdict}'\n"
    profile = load(str(written(tmp_path, f"{HEAD}{variable}when = {{ workload = 'ray' }}\n"))).profile
    assert set(workloads_of(profile)) == known
    entry = SiteVariable(name="A", value="1", reason="r", verdict=verdict, when=When(workload="ray"))
    assert applies(entry, Situation(workloads=frozenset({"ray"}))) is bool(known)
