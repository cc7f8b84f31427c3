"""A probe drafts a profile of what a cluster answers: it loads, a job runs with it, and nothing in it is guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import MachineLacks
from muster.facts import Facts
from muster.runner import ProgramResult
from muster.sites.load import load
from muster.sites.site import Site
from muster_check.survey.ask import survey
from muster_check.survey.draft import Survey, draft, node_answers
from muster_check.verbs.site import _probe
from plugins.labs import MUSTER, Person, lab_up

# Slurm 22.05's own words, shortened.
ANSWERS = {
    "config": "ClusterName = tinker\nKillOnBadExit = 1\nMpiParams = ports=20000-20999\nSLURM_VERSION = 22.05.8\n",
    "partitions": "main*|up|2-00:00:00|1:00:00|1-infinite|16|64|2:32:1|512000|gpu:a100:4(S:0-1)|a100,ib\n"
    "debug|up|30:00|n/a|1-2|16|64|2:32:1|512000|gpu:a100:4(S:0-1)|a100,ib\n"
    "cpu|drain|infinite|n/a|1-infinite|3|128+|2:32:2|256000+|(null)|(null)\n",
    "default": "main*\ndebug\ncpu\n",
    "mpi": "MPI plugin types are...\n\tpmi2\n\tnone\n\tpmix\n",
    "qos": "normal||\nlong|7-00:00:00|node=8\n",
    "accounts": "physics|main|normal,long\nphysics||\nchemistry|main|normal\n",
    "modules": "@@ lmod\n/apps/modules/all:\nCUDA/12.4\nCUDA/12.6(default)\nR/4.4.1\nOpenMPI/5.0.3-GCC-13.3\nPython/\n",
}


def drafted(folder: Path, asked: Survey) -> Site:
    path = folder / "tinker.toml"
    path.write_text(draft(asked, "tinker"))
    return load(str(path))


def asked_alone(**more: Any) -> Survey:
    return Survey(day="2026-11-20", host="login1", answers=ANSWERS, **more)


def test_the_login_node_alone_gives_nodes_queues_and_launch(tmp_path: Path) -> None:
    site = drafted(tmp_path, asked_alone())
    profile = site.profile
    assert list(profile.nodes) == ["a1004", "cpu128"]
    node = profile.nodes["a1004"]
    assert (node.gpus, node.cores, node.cores_per_gpu, node.memory_mib) == (4, 64, 16, 512000)
    assert profile.request.gres_names == ("gpu:a100",)
    main, debug = profile.partitions["main"], profile.partitions["debug"]
    assert (main.time_max, main.time_default, main.default, main.nodes_max) == ("2-00:00:00", "01:00:00", True, None)
    assert (debug.time_max, debug.nodes_max, debug.default) == ("00:30:00", 2, False)
    assert not profile.partitions["cpu"].open
    assert profile.qos["long"].nodes_max == 8
    assert profile.launch.mpi_types == ("pmi2", "none", "pmix")
    assert profile.launch.kills_on_bad_exit is True
    assert profile.rendezvous.reserved_ports is True
    assert profile.detect.cluster_names == ("tinker",)
    assert profile.request.account_example == "physics"
    assert (profile.modules.system, profile.modules.where) == ("lmod", "everywhere")
    assert profile.modules.catalogue == ("CUDA/12.4", "CUDA/12.6", "OpenMPI/5.0.3-GCC-13.3")
    origin = site.origin("nodes.a1004.cores")
    assert origin.source is not None
    assert origin.trust == "V"


def test_what_was_not_learned_is_named_and_not_guessed(tmp_path: Path) -> None:
    text = draft(asked_alone(refused={"accounts": "sacctmgr: error: accounting is off"}), "tinker")
    assert "# not learned: sacctmgr" in text
    assert "a job of a minute" in text
    profile = drafted(tmp_path, asked_alone()).profile
    node = profile.nodes["a1004"]
    assert (node.numa, node.gpu_numa, node.arch, profile.fabric.kind, profile.network.internet) == (None,) * 5


def test_a_compute_node_adds_its_numa_domains_gpus_and_fabric(tmp_path: Path) -> None:
    lscpu = "\n".join(f"{cpu},{cpu},{cpu // 32},{cpu // 32}" for cpu in range(64))
    topology = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n" + "\n".join(
        f"GPU{gpu}\tX\tNV4\tNV4\tNV4\t{gpu // 2 * 32}-{gpu // 2 * 32 + 31}\t{gpu // 2}" for gpu in range(4)
    )
    node = {
        "lscpu": lscpu,
        "nvidia": "0, NVIDIA A100-SXM4-40GB, 40960",
        "topology": topology,
        "interfaces": "lo eth0 ib0 ib1",
        "hcas": "mlx5_0 mlx5_1",
        "link_layers": "InfiniBand InfiniBand",
        "arch": "x86_64",
    }
    profile = drafted(tmp_path, asked_alone(node=node)).profile
    assert profile.nodes["a1004"].numa == ("0-31", "32-63")
    assert profile.nodes["a1004"].gpu_numa == (0, 0, 1, 1)
    assert profile.nodes["a1004"].gpu_kind == "cuda"
    assert (profile.fabric.kind, profile.fabric.hcas) == ("infiniband", ("mlx5_0", "mlx5_1"))


def test_cores_that_slurm_does_not_count_give_no_tables(tmp_path: Path) -> None:
    profile = drafted(tmp_path, asked_alone(node={"lscpu": "0,0,0,0\n1,1,0,0"})).profile
    assert profile.nodes["a1004"].numa is None


def test_the_answers_of_a_node_stand_between_lines_of_their_own() -> None:
    assert node_answers("@@ lscpu\n# head\n0,0,0,0\n@@ nvidia\n@@ arch\nx86_64\n@@ end\n") == {
        "lscpu": "# head\n0,0,0,0",
        "arch": "x86_64",
    }


@given(st.dictionaries(st.sampled_from(sorted(ANSWERS)), st.text(st.characters(codec="ascii"), max_size=200)))
def test_whatever_a_cluster_answers_the_draft_loads(answers: dict[str, str]) -> None:
    from muster.older import tomllib
    from muster.sites.consistency import check
    from muster.sites.layers import Layer, merge

    text = draft(Survey(day="2026-11-20", host="h", answers=answers), "tinker")
    layers = [Layer("user", "draft", text, tomllib.loads(text))]
    assert check(merge(layers), layers).name == "tinker"


def test_a_refusal_and_a_missing_program_are_answers_too() -> None:
    def runner(argv: Sequence[str], **how: Any) -> ProgramResult:
        if argv[0] == "sinfo":
            return ProgramResult(tuple(argv), 1, "", "sinfo: error: Access denied")
        if argv[0] == "sacctmgr":
            raise MachineLacks("sacctmgr", "the program 'sacctmgr' is not on PATH", hint="")
        return ProgramResult(tuple(argv), 0, ANSWERS.get("config", ""), "")

    found = survey(Facts(hostname="login1", user="alice"), runner=runner)
    assert set(found.answers) == {"config", "modules", "place"}
    assert "cannot be read" in found.refused["mpi"]
    assert found.refused["partitions"] == "sinfo: error: Access denied"
    assert "not on PATH" in found.refused["qos"]


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
        assert next(iter(profile.nodes.values())).gpus == 2
        assert "main" in profile.partitions
        run = [MUSTER, "run", "--site", str(path), "-N", "2", "-g", "2", "-t", "5", "--", "hostname"]
        done = lab.exec(run)
        assert done.ok, done.stderr
        assert sorted(re.findall(r"node\d", done.stdout)) == ["node1", "node1", "node2", "node2"]
