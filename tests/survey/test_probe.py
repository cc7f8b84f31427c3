"""A probe drafts a profile of what a cluster answers: it loads, a job runs with it, and nothing in it is guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.errors import MachineLacks
from muster.facts import Facts
from muster.look.ask_cluster import Silence
from muster.runner import ProgramResult
from muster.sites.load import load
from muster.sites.site import Site
from muster_check.survey.ask import survey
from muster_check.survey.draft import QUESTIONS, Survey, draft, node_answers, seen_profile
from muster_check.verbs.site import _probe
from plugins.labs import MUSTER, Person, lab_up
from slurm.clusters import accounting_text, cluster, controller_text, kind_line, partition_line

A100 = {"gres": "gpu:a100:4(S:0-1)", "shape": "2:32:1", "memory": "512000"}
# Slurm 22.05's own words, shortened.
CLUSTER = cluster(
    [
        partition_line("main", Default="YES", MaxTime="2-00:00:00", DefaultTime="01:00:00"),
        partition_line("debug", MaxTime="00:30:00", MaxNodes="2"),
        partition_line("cpu", State="DRAIN"),
    ],
    [
        kind_line("main,debug", 16, 64, features="a100,ib", **A100),
        kind_line("cpu", 3, 128, shape="2:32:2", memory="256000"),
    ],
    accounting_text(
        "physics|chemistry|main|normal|\nphysics|physics||normal,long|",
        "normal||||||cluster|\nlong|7-00:00:00|node=8||||cluster|",
    ),
    AccountingStorageType="accounting_storage/slurmdbd",
    KillOnBadExit="1",
    MpiParams="ports=20000-20999",
)
ANSWERS = {
    "mpi": "MPI plugin types are...\n\tpmi2\n\tnone\n\tpmix\n",
    "modules": "@@ lmod\n/apps/modules/all:\nCUDA/12.4\nCUDA/12.6(default)\nR/4.4.1\nOpenMPI/5.0.3-GCC-13.3\nPython/\n",
}
SELF = kind_line("main,debug", 1, 64, **A100)
"""What scontrol says of the node on which the job of the probe ran."""


def drafted(folder: Path, asked: Survey) -> Site:
    path = folder / "tinker.toml"
    path.write_text(draft(asked, "tinker"))
    return load(str(path))


def asked_alone(**more: Any) -> Survey:
    return Survey(**{"day": "2026-11-20", "host": "login1", "cluster": CLUSTER, "answers": ANSWERS, **more})


def test_the_draft_holds_what_slurm_cannot_say(tmp_path: Path) -> None:
    site = drafted(tmp_path, asked_alone())
    profile = site.profile
    assert profile.draft
    assert (profile.nodes, profile.partitions, profile.qos) == ({}, {}, {})
    assert profile.summary == "16 nodes × 4 × a100"
    assert profile.launch.mpi_types == ("pmi2", "none", "pmix")
    assert profile.detect.cluster_names == ("tinker",)
    assert profile.request.account_example == "physics"
    assert "# yours: physics, chemistry" in (tmp_path / "tinker.toml").read_text()
    assert (profile.modules.system, profile.modules.where) == ("lmod", "everywhere")
    assert profile.modules.catalogue == ("CUDA/12.4", "CUDA/12.6", "OpenMPI/5.0.3-GCC-13.3")
    origin = site.origin("launch.mpi_types")
    assert origin.source is not None
    assert origin.trust == "V"


LSCPU = "\n".join(f"{cpu},{cpu},{cpu // 32},{cpu // 32}" for cpu in range(64))
_TOPOLOGY = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
_INSIDE = {"self": SELF, "lscpu": LSCPU, "arch": "x86_64"}
_ASKED: dict[str, dict[str, Any]] = {
    "the login node alone": {},
    "a silent cluster": {
        "cluster": None, "answers": {"shares": "ada|1\nbob|2"}, "refused": {"cluster": "down\nx", "mpi": " "},
    },
    "modules of other kinds": {
        "answers": {"modules": "@@ tmod\n/apps:\n/apps/CUDA/1\nCUDA/1\nCUDA one/2\nGCC/13:\nx/\nPyTorch/2(default)\n"}
    },
    "modules of none": {"answers": {"modules": "CUDA/12"}},
    "NVIDIA": {
        "node": {
            **_INSIDE, "nvidia": "0, A100, 40960\nbroken", "interfaces": "lo eth0 hsn0", "hcas": "mlx5_0",
            "topology": f"{_TOPOLOGY}GPU0\tX\tNV4\t0-31\t0\tN/A\nGPU1\tNV4\tX\t32-63\t1\tN/A\n",
        }
    },
    "NVIDIA with two domains for a GPU": {
        "node": {**_INSIDE, "topology": f"{_TOPOLOGY}GPU0\tX\tNV4\t0-31\t0-1\tN/A\nGPU1\tNV4\tX\t32-63\t1\tN/A\n"}
    },
    "NVIDIA with a short row": {"node": {**_INSIDE, "topology": f"{_TOPOLOGY}GPU0\tX\nGPU1\tX\tX\t0\t1\tN/A\n"}},
    "NVIDIA without domains": {"node": {**_INSIDE, "topology": "\tGPU0\tCPU Affinity\nGPU0\tX\t0-31\n"}},
    "AMD": {"node": {**_INSIDE, "rocm": "GPU[0] : (Topology) Numa Node: 3\nGPU[1] : (Topology) Numa Node: 1\n"}},
    "Intel": {"node": {**_INSIDE, "xpu": '{"device_name": "Max 1550"}', "interfaces": "bond0 docker0"}},
    "Ethernet": {"node": {**_INSIDE, "interfaces": "en0", "hcas": "mlx5_0", "link_layers": "Ethernet"}},
    "two link layers": {"node": {**_INSIDE, "hcas": "a b", "link_layers": "Ethernet InfiniBand"}},
    "no fabric": {"node": {**_INSIDE, "interfaces": "lo"}},
    "Omni-Path": {"node": {**_INSIDE, "interfaces": "ib0", "link_layers": "Omni"}},
}  # fmt: skip


def test_all_that_a_draft_says(golden: Callable[[Path, str], None]) -> None:
    drafts = {name: draft(asked_alone(**more), "tinker") for name, more in _ASKED.items()}
    usual = set(drafts["the login node alone"].splitlines())
    lines = [
        f"{name}: {' ⏎ '.join(line for line in text.splitlines() if number == 0 or line not in usual)}"
        for number, (name, text) in enumerate(drafts.items())
    ]
    golden(Path(__file__).parent.parent / "golden/drafted.txt", "\n".join([*lines, ""]))


@pytest.mark.parametrize("node", [{}, {"self": SELF, "arch": "x86_64"}], ids=["login node", "--job"])
def test_with_a_draft_slurm_still_picks_the_queue(tmp_path: Path, node: dict[str, str]) -> None:
    """The draft may describe a kind of node: a job without a partition is planned as without the draft."""
    drafted(tmp_path, asked_alone(node=node))
    site = load(str(tmp_path / "tinker.toml"), cluster=CLUSTER)
    assert not site.is_described
    assert site.profile.partitions["debug"].time_max == "00:30:00"
    assert [kind.arch for kind in site.profile.nodes.values() if kind.gpus == 4] == [node.get("arch")]


def test_all_that_was_seen_is_the_draft_and_slurms_word() -> None:
    profile = seen_profile(asked_alone())
    a100 = profile.nodes["a100-4"]
    assert (a100.gpus, a100.cores, a100.memory_mib) == (4, 64, 512000)
    main, debug = profile.partitions["main"], profile.partitions["debug"]
    assert (main.time_max, main.time_default, main.default, main.nodes_max) == ("2-00:00:00", "01:00:00", True, None)
    assert (debug.time_max, debug.nodes_max, debug.default) == ("00:30:00", 2, False)
    assert not profile.partitions["cpu"].open
    assert profile.qos["long"].nodes_max == 8
    assert profile.launch.mpi_types == ("pmi2", "none", "pmix")
    assert (profile.launch.kills_on_bad_exit, profile.launch.slurm) == (True, "22.05.8")


def test_what_was_not_learned_is_named_and_not_guessed(tmp_path: Path) -> None:
    text = draft(asked_alone(refused={"accounting": "sacctmgr: error: accounting is off"}), "tinker")
    assert "# not learned: sacctmgr" in text
    assert "a job of a minute" in text
    profile = drafted(tmp_path, asked_alone()).profile
    assert (profile.fabric.kind, profile.network.internet) == (None, None)


def test_a_compute_node_adds_its_numa_domains_gpus_and_fabric(tmp_path: Path) -> None:
    topology = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n" + "\n".join(
        f"GPU{gpu}\tX\tNV4\tNV4\tNV4\t{gpu // 2 * 32}-{gpu // 2 * 32 + 31}\t{gpu // 2}" for gpu in range(4)
    )
    node = {
        "self": SELF,
        "lscpu": LSCPU,
        "nvidia": "0, NVIDIA A100-SXM4-40GB, 40960",
        "topology": topology,
        "interfaces": "lo eth0 ib0 ib1",
        "hcas": "mlx5_0 mlx5_1",
        "link_layers": "InfiniBand InfiniBand",
        "arch": "x86_64",
    }
    profile = drafted(tmp_path, asked_alone(node=node)).profile
    (kind,) = profile.nodes.values()
    assert (kind.gpus, kind.cores, kind.gpu_type) == (4, 64, "a100")
    assert kind.numa == ("0-31", "32-63")
    assert kind.gpu_numa == (0, 0, 1, 1)
    assert kind.gpu_kind == "cuda"
    assert (profile.fabric.kind, profile.fabric.hcas) == ("infiniband", ("mlx5_0", "mlx5_1"))


def test_the_inside_of_a_node_belongs_to_the_kind_that_the_job_got(tmp_path: Path) -> None:
    """The job ran on a node without GPUs, though the cluster has nodes with some."""
    own = kind_line("cpu", 1, 128, shape="2:32:2", memory="256000")
    profile = drafted(tmp_path, asked_alone(node={"self": own, "lscpu": LSCPU, "arch": "aarch64"})).profile
    ((name, kind),) = profile.nodes.items()
    assert (name, kind.gpus, kind.arch) == ("cpu-128", 0, "aarch64")


def test_a_node_that_does_not_say_what_it_is_gives_no_kind(tmp_path: Path) -> None:
    asked = asked_alone(node={"lscpu": LSCPU, "arch": "x86_64", "self": "scontrol: error"})
    assert drafted(tmp_path, asked).profile.nodes == {}
    assert "does not say which kind of node it is" in draft(asked, "tinker")


def test_cores_that_slurm_does_not_count_give_no_tables(tmp_path: Path) -> None:
    node = {"self": SELF, "lscpu": "0,0,0,0\n1,1,0,0"}
    (kind,) = drafted(tmp_path, asked_alone(node=node)).profile.nodes.values()
    assert kind.numa is None


def test_the_answers_of_a_node_stand_between_lines_of_their_own() -> None:
    assert node_answers("@@ lscpu\n# head\n0,0,0,0\n@@ nvidia\n@@ arch\nx86_64\n@@ end\n") == {
        "lscpu": "# head\n0,0,0,0",
        "arch": "x86_64",
    }


@given(st.dictionaries(st.sampled_from(sorted({*QUESTIONS})), st.text(st.characters(codec="ascii"), max_size=200)))
def test_whatever_a_cluster_answers_the_draft_loads(answers: dict[str, str]) -> None:
    from muster.older import tomllib
    from muster.sites.consistency import check
    from muster.sites.layers import Layer, merge

    text = draft(asked_alone(answers=answers), "tinker")
    layers = [Layer("user", "draft", text, tomllib.loads(text))]
    assert check(merge(layers), layers).name == "tinker"


def path_with(folder: Path, *programs: str) -> dict[str, str]:
    """Variables of a host that has these programs."""
    for name in programs:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


def test_a_refusal_and_a_missing_program_are_answers_too(tmp_path: Path) -> None:
    text = controller_text(
        partition_line("main"), ClusterName="tinker", AccountingStorageType="accounting_storage/slurmdbd"
    )

    def runner(argv: Sequence[str], **how: Any) -> ProgramResult:
        if argv[0] == "sacctmgr":
            return ProgramResult(tuple(argv), 1, "", "sacctmgr: error: Access denied")
        if argv[0] == "sshare":
            raise MachineLacks("sshare", "the program 'sshare' is not on PATH", hint="")
        return ProgramResult(tuple(argv), 0, text, "")

    environment = path_with(tmp_path, "scontrol", "sacctmgr")
    found = survey(Facts(hostname="login1", user="alice", environment=environment), runner=runner)
    assert found.cluster is not None
    assert set(found.answers) == {"modules", "place"}
    assert "cannot be read" in found.refused["mpi"]
    assert "Access denied" in found.refused["accounting"]
    assert "not on PATH" in found.refused["shares"]


def test_a_controller_that_is_silent_is_a_question_without_answer() -> None:
    def runner(argv: Sequence[str], **how: Any) -> ProgramResult:
        return ProgramResult(tuple(argv), 1, "", "slurm_load_partitions: Unable to contact slurm controller")

    found = survey(Facts(hostname="login1", user="alice"), runner=runner)
    assert found.cluster is None
    assert "Unable to contact" in found.refused["cluster"]


@pytest.mark.parametrize(("refused", "status"), [({}, 0), ({"node": "no job ran"}, 3)])
def test_a_job_that_was_asked_for_and_refused_is_no_success(
    monkeypatch: pytest.MonkeyPatch, refused: dict[str, str], status: int
) -> None:
    monkeypatch.setattr("muster_check.verbs.site._survey", lambda _: asked_alone(refused=refused))

    assert _probe(SimpleNamespace(first="tinker")) == status  # type: ignore[arg-type]


@pytest.mark.lab
def test_the_draft_of_a_real_cluster_loads_and_a_first_job_runs_with_it(tester: Person, scratch: Path) -> None:
    with lab_up(tester, "probed", "-N", "2", "--gpus-per-node", "2", "--gpu-type", "volta") as lab:
        done = lab.exec([MUSTER, "site", "probe", "tinker", "--job"])
        assert done.ok, done.stderr
        path = scratch / "tinker.toml"
        path.write_text(done.stdout)
        profile = load(str(path)).profile
        assert [(kind.gpus, kind.gpu_type) for kind in profile.nodes.values()] == [(2, "volta")]
        assert profile.partitions == {}
        run = [MUSTER, "run", "--site", str(path), "-N", "2", "-g", "2", "-t", "5", "--", "hostname"]
        done = lab.exec(run)
        assert done.ok, done.stderr
        assert sorted(re.findall(r"node\d", done.stdout)) == ["node1", "node1", "node2", "node2"]


@pytest.mark.parametrize(
    ("said", "answer", "status", "stderr", "refused", "node", "shares"),
    [
        (CLUSTER, "@@ arch\nx86_64\n@@ end\n", 0, "", {}, {"arch": "x86_64"}, False),
        (CLUSTER, "@@ arch\nx86", 0, "", {"node": "what it said is not whole: '@@ arch\\nx86'"}, {}, False),
        (CLUSTER, "", 1, "no room\n", {"node": "no room"}, {}, False),
        (CLUSTER, "", 1, "", {"node": "ended with status 1, without a word"}, {}, False),
        (replace(CLUSTER, associations=()), "@@ end\n", 0, "", {}, {}, True),
        (replace(CLUSTER, unanswered=("sacctmgr: no",)), "@@ end\n", 0, "", {"accounting": "sacctmgr: no"}, {}, False),
        (Silence(""), "@@ end\n", 0, "", {"cluster": "no cluster is set up for Slurm's clients here"}, {}, True),
        (Silence("away"), "@@ end\n", 0, "", {"cluster": "away"}, {}, True),
    ],
)
@pytest.mark.parametrize("reach", [None, "www.example.org"])
def test_a_job_and_a_cluster_are_asked_and_each_refusal_is_kept(
    monkeypatch: pytest.MonkeyPatch, said: Any, answer: str, status: int, stderr: str, refused: dict[str, str],
    node: dict[str, str], shares: bool, reach: str | None,
) -> None:  # fmt: skip
    asked: list[Sequence[str]] = []

    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        asked.append(argv)
        if any("lscpu" in word for word in argv):
            return ProgramResult(tuple(argv), status, answer, stderr)
        return ProgramResult(tuple(argv), 1, "", "not here")

    monkeypatch.setattr("muster_check.survey.ask.ask_cluster", lambda *_, **__: said)
    found = survey(Facts(hostname="login1", user="ada"), job=("-Ax",), reach=reach, runner=runner)
    assert {key: text for key, text in found.refused.items() if text != "not here"} == refused
    assert found.node == node
    assert ("shares" in found.refused) is shares
    (job,) = [argv for argv in asked if any("lscpu" in word for word in argv)]
    assert {"-Ax", "--quiet"} <= set(job)  # news of the queue is not a reason
    assert any("www.example.org" in word for word in job) is bool(reach)
    alone = survey(Facts(hostname="login1", user="ada"), runner=runner)
    assert ("node" in alone.refused, alone.node) == (False, {})
