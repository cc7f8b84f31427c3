"""`site check` finds the one fact that does not hold, with its line, and nothing where all holds."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.sites.heads import SearchPath
from muster.sites.load import load
from muster.sites.tell import third_party_keys
from muster_check.survey.draft import Survey
from muster_check.survey.verify import verify
from plugins.labs import MUSTER, Lab, Person, lab_up
from sites.profiles import COMPLETE, NAMES, bundled
from slurm.clusters import kind_line, like_site, row_of

# One fact at a time, broken: site, what is laid over its profile, and the key that has to be found.
BROKEN: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("lumi", {"detect.cluster_names": ["lumi-next"]}, "detect.cluster_names"),
    ("lumi", {"partitions.standard-g.time_max": "3-00:00:00"}, "partitions.standard-g.time_max"),
    ("lumi", {"partitions.standard-g.nodes_max": 2048}, "partitions.standard-g.nodes_max"),
    ("lumi", {"partitions.dev-g.time_max": "02:00:00"}, "partitions.dev-g.time_max"),
    ("lumi", {"partitions.small-g.gpus": 4}, "partitions.small-g.gpus"),
    ("lumi", {"partitions.huge-g.gpus": 8}, "partitions.huge-g"),
    (
        "lumi",
        {"nodes.g.gpus": 16, "nodes.g.gpu_numa": [0] * 16, "nodes.g.cores_per_gpu": 3, "memory.mem_per_gpu": "30G"},
        "nodes.g.gpus",
    ),
    ("lumi", {"nodes.g.cores": 96}, "nodes.g.cores"),
    ("lumi", {"nodes.g.memory_usable": "600G"}, "nodes.g.memory_usable"),
    ("lumi", {"nodes.g.arch": "aarch64"}, "nodes.g.arch"),
    ("lumi", {"launch.mpi": "pmix_v9"}, "launch.mpi"),
    ("lumi", {"launch.mpi_types": ["cray_shasta", "pspmix"]}, "launch.mpi_types"),
    ("lumi", {"launch.kills_on_bad_exit": True}, "launch.kills_on_bad_exit"),
    ("lumi", {"request.features": ["nvme"]}, "request.features"),
    ("marenostrum5", {"qos.acc_debug.time_max": "04:00:00"}, "qos.acc_debug.time_max"),
    ("marenostrum5", {"qos.acc_debug.nodes_max": 16}, "qos.acc_debug.nodes_max"),
    ("marenostrum5", {"qos.acc_special.time_max": "04:00:00"}, "qos.acc_special"),
    ("marenostrum5", {"nodes.acc.cores": 96}, "nodes.acc.cores"),
    ("marenostrum5", {"partitions.acc.gpus": 8}, "partitions.acc.gpus"),
    ("supercloud", {"request.gres_names": ["gpu:tesla"]}, "request.gres_names"),
    ("supercloud", {"nodes.volta.gpus": 1, "partitions.xeon-g6-volta.gpus": 2}, "nodes.volta.gpus"),
    ("supercloud", {"partitions.xeon-p8.nodes_max": 2}, "partitions.xeon-p8.nodes_max"),
    ("supercloud", {"nodes.p8.cores": 24}, "nodes.p8.cores"),
)

# What a lab of this machine cannot show as the site has it; the GPUs of a lab like LUMI have no type.
UNLIKE = {"request.gres_names", "launch.slurm", "fabric.kind", "fabric.interfaces", "detect.cluster_names"}


def test_enough_facts_are_broken() -> None:
    assert len(BROKEN) >= 20
    assert len({key for _, _, key in BROKEN}) == len(BROKEN)


@pytest.mark.lab
@pytest.mark.parametrize("name", ["lumi", "marenostrum5", "supercloud"])
def test_one_broken_fact_is_found_with_its_key_and_nothing_else(name: str, tester: Person, scratch: Path) -> None:
    site = bundled(name)
    profile = site.profile
    with lab_up(tester, f"check-{name}", "--like", name, "-N", "2") as lab:
        account = profile.request.account_example
        flags = ["--partition=" + next(iter(profile.partitions)), *([f"--account={account}"] if account else [])]
        required = profile.request.required or ()
        flags += [f"--qos={next(iter(profile.qos))}"] if "qos" in required else []
        flags += ["--cpus-per-task=2", *(["--mem=1G"] if profile.memory.policy != "forbidden" else [])]
        asked = _asked_in(lab, flags, scratch / f"asked-{name}.json")
        checked = lab.exec([MUSTER, "site", "check", name, "--json"])
    base = {finding.key for finding in verify(site, asked)}
    assert base <= UNLIKE
    assert {row["key"] for row in json.loads(checked.stdout)["findings"]} <= UNLIKE
    for broken, changed, key in BROKEN:
        if broken == name:
            found = {each.key for each in verify(load(name, SearchPath(site_wide=None), changed), asked)}
            assert found - base == {key} - base, changed


# What `site check --job` asks, written down in the lab.
_ASK = """\
import msgspec, sys
from muster.look.probe import look
from muster_check.survey.ask import survey
open(sys.argv[1], "wb").write(msgspec.json.encode(survey(look(), job=sys.argv[2:])))
"""


def _asked_in(lab: Lab, flags: list[str], file: Path) -> Survey:
    done = lab.exec([sys.executable, "-c", _ASK, str(file), *flags])
    assert done.ok, done.stderr
    return msgspec.json.decode(file.read_bytes(), type=Survey)


@pytest.mark.parametrize("name", [name for name in COMPLETE if bundled(name).profile.partitions])
def test_a_profile_agrees_with_a_cluster_like_it(name: str) -> None:
    site = bundled(name)
    names = site.profile.detect.cluster_names or ("tinker",)
    like = msgspec.structs.replace(like_site(site.profile), name=names[0], version="")
    findings = [finding.words() for finding in verify(site, Survey("2026-11-23", "h", cluster=like))]
    assert [words for words in findings if not words.startswith("request.")] == []


def test_a_finding_names_the_file_and_line_that_says_it(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[launch]\nmpi = 'pmix_v9'\n")
    site = load("lumi", SearchPath(site_wide=None, user=tmp_path))
    (finding,) = verify(site, Survey("2026-11-23", "h", answers={"mpi": "\tnone\n\tcray_shasta\n\tpmi2\n"}))
    assert (finding.key, finding.origin.line) == ("launch.mpi", 2)
    assert finding.words().startswith(
        f"launch.mpi: the profile says srun --mpi=pmix_v9 ({tmp_path}/site.toml:2), srun --mpi=list says none"
    )


def test_all_that_slurm_says_otherwise_is_listed_with_both_origins() -> None:
    site = bundled("delta")
    there = like_site(site.profile, gpuA100x4={"MaxTime": "06:00:00", "PriorityTier": "2"}, cpu={"State": "DOWN"})
    there = msgspec.structs.replace(there, kills_on_bad_exit=None, version="")
    findings = verify(site, Survey("2026-11-23", "h", cluster=there))
    (limit,) = [finding for finding in findings if finding.key == "partitions.gpuA100x4.time_max"]
    assert re.fullmatch(
        r"partitions\.gpuA100x4\.time_max: the profile says 2-00:00:00 "
        r"\(\S+/delta\.toml:\d+; Delta user documentation, [^)]*\), Slurm says here 06:00:00",
        limit.words(),
    )
    assert limit.hint == ""
    assert "partitions.cpu.open" in {finding.key for finding in findings}


@pytest.mark.parametrize(
    ("own", "arch", "slurm", "without", "keys"),
    [
        ("g", "aarch64", True, "", ["nodes.g.arch"]),
        ("g", "x86_64", True, "", []),
        ("g", "aarch64", True, "nodes.g.arch", []),
        ("g", "aarch64", False, "", []),
        ("", "aarch64", True, "", []),
        ("other", "aarch64", True, "", []),
    ],
)
def test_what_the_node_of_a_job_shows_is_held_against_its_kind(
    tmp_path: Path, own: str, arch: str, slurm: bool, without: str, keys: list[str]
) -> None:
    (tmp_path / "site.toml").write_text(f'without = ["{without}"]\n' if without else "")
    site = load("lumi", SearchPath(site_wide=None, user=tmp_path))
    profile = bundled("lumi").profile
    there = msgspec.structs.replace(like_site(profile), name=profile.detect.cluster_names[0], version="")
    line = kind_line("own", 1, 3) if own == "other" else row_of(profile, "standard-g", profile.nodes["g"])
    node = {"self": line if own else "", "lscpu": "0,0,0,0\n", "arch": arch}
    found = verify(site, Survey("2026-11-23", "h", cluster=there if slurm else None, node=node))
    assert [finding.key for finding in found if finding.key.startswith("nodes.")] == keys


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, []),
        ({"name": "other"}, ["detect.cluster_names"]),
        ({"name": ""}, []),
        ({"kills_on_bad_exit": False}, ["launch.kills_on_bad_exit"]),
        ({"kills_on_bad_exit": None}, []),
    ],
)
def test_what_slurm_says_of_itself_is_held_against_the_profile(
    tmp_path: Path, changes: dict[str, Any], keys: list[str]
) -> None:
    (tmp_path / "site.toml").write_text("[launch]\nkills_on_bad_exit = true\n")
    site = load("lumi", SearchPath(site_wide=None, user=tmp_path))
    there = msgspec.structs.replace(like_site(site.profile), name=site.profile.detect.cluster_names[0], version="")
    there = msgspec.structs.replace(there, **{"kills_on_bad_exit": True, **changes})
    found = verify(site, Survey("2026-11-23", "h", cluster=there))
    assert [finding.key for finding in found if finding.key.startswith(("detect", "launch"))] == keys


def test_what_a_profile_calls_closed_is_not_missed(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[partitions.cpu]\nopen = false\n")
    site = load("delta", SearchPath(site_wide=None, user=tmp_path))
    for changed in ({"PartitionName": "cpu-new"}, {"State": "DOWN"}):
        there = like_site(bundled("delta").profile, cpu=changed)
        keys = {finding.key for finding in verify(site, Survey("2026-11-23", "h", cluster=there))}
        assert not {key for key in keys if key.startswith("partitions.cpu")}


def test_a_third_partys_word_is_listed_and_nobody_elses() -> None:
    listed = {name: third_party_keys(bundled(name)) for name in NAMES}

    assert listed["lumi"] == sorted(set(listed["lumi"]), key=listed["lumi"].index)
    assert any(listed.values())
    for name, keys in listed.items():
        trusts = {bundled(name).profile.sources[each].trust for each in bundled(name).profile.sources}
        assert not keys or "T" in trusts, name
