"""Where we are is decided by evidence; a node's name alone decides nothing; two matches are an error naming both."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from muster.cli.app import main
from muster.errors import ProfileError
from muster.facts import Facts
from muster.sites.heads import SearchPath, heads
from muster.sites.load import choose_site
from muster.sites.match import Evidence, SiteMatch, decide, signs, weak_signs

SHIPPED = {head.name: head.detect for head in heads(SearchPath(site_wide=None))}

SEEN = [
    ("lumi", Evidence(cluster_name="lumi", hostname="nid005001")),
    ("lumi", Evidence(files=frozenset({"/appl/local/laifs"}), hostname="uan01")),
    ("clariden", Evidence(environment={"CLUSTER_NAME": "clariden"}, hostname="nid005001")),
    ("daint", Evidence(hostname="daint-ln002")),
    ("perlmutter", Evidence(environment={"NERSC_HOST": "perlmutter"}, hostname="nid001234")),
    ("frontier", Evidence(environment={"LMOD_SYSTEM_NAME": "frontier"})),
    ("juwels-booster", Evidence(environment={"SYSTEMNAME": "juwelsbooster"})),
    ("jupiter", Evidence(environment={"SYSTEMNAME": "jupiter"})),
    ("leonardo", Evidence(hostname="login02.leonardo.local")),
    ("marenostrum5", Evidence(environment={"BSC_MACHINE": "mn5"}, hostname="as01r1b05")),
    ("horeka", Evidence(environment={"CLUSTER": "hk2"}, hostname="hkn1990")),
    ("supercloud", Evidence(files=frozenset({"/home/gridsan"}))),
]


@pytest.mark.parametrize(("site", "evidence"), SEEN)
def test_a_certain_sign_decides_and_is_shown(site: str, evidence: Evidence) -> None:
    sighting = decide(evidence, SHIPPED)
    assert sighting.name == site
    assert sighting.evidence


@pytest.mark.parametrize("hostname", ["nid001234", "nid005001", "hkn0518", "as01r1b05", "login-0", "localhost", ""])
def test_a_nodes_name_alone_decides_nothing(hostname: str) -> None:
    assert decide(Evidence(hostname=hostname), SHIPPED).name is None


def test_what_fits_but_does_not_decide_is_shown() -> None:
    evidence = Evidence(hostname="nid001234")
    assert {"clariden", "perlmutter", "lumi"} <= {site for site in SHIPPED if any(weak_signs(evidence, SHIPPED[site]))}


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("tn[0-9]+", "tn12", "xtn12"),
        ("login0?[1-4]", "login3", "login05"),
        ("ab*c{0,1}", "a", "b"),
        ("(?i)node-a", "NODE-A", "node-b"),
        ("a|node7", "node7", "node"),
        (r"\w+\.cluster", "x.cluster", "cluster"),
        ("", "", "x"),
    ],
)
def test_a_hosts_name_is_compared_with_the_whole_pattern(pattern: str, fitting: str, other: str) -> None:
    assert list(signs(Evidence(hostname=fitting), {"hosts": [pattern]})) == [f"the host is called {fitting}"]
    assert list(signs(Evidence(hostname=other), {"hosts": [pattern]})) == []


def test_two_profiles_that_match_are_an_error_that_names_both() -> None:
    evidence = Evidence(environment={"CLUSTER_NAME": "clariden", "NERSC_HOST": "perlmutter"})
    with pytest.raises(ProfileError, match=r"clariden \(CLUSTER_NAME is clariden\); perlmutter"):
        decide(evidence, SHIPPED)


def test_a_cluster_that_says_another_name_is_not_the_site_whatever_else_fits() -> None:
    evidence = Evidence(cluster_name="lumi-test", files=frozenset({"/appl/local/laifs"}))
    assert decide(evidence, SHIPPED) == SiteMatch(None)


def test_no_two_shipped_profiles_share_a_certain_sign() -> None:
    signs = [
        (kind, str(sign))
        for detect in SHIPPED.values()
        for kind in ("cluster_names", "hosts", "files")
        for sign in detect.get(kind, ())
    ]
    signs += [
        ("environment", str(item)) for detect in SHIPPED.values() for item in detect.get("environment", {}).items()
    ]
    assert len(signs) == len(set(signs))


def test_no_match_is_generic_and_said_aloud(tmp_path: Path) -> None:
    site = choose_site(None, Facts(home=str(tmp_path), working_directory=str(tmp_path), hostname="nid001234"))
    assert site.name == "generic"
    assert "no site profile matches this host" in site.notes[0]


def test_a_match_is_loaded_with_its_evidence(tmp_path: Path) -> None:
    facts = Facts(home=str(tmp_path), working_directory=str(tmp_path), environment={"CLUSTER_NAME": "daint"})
    site = choose_site(None, facts)
    assert (site.name, site.notes) == ("daint", ("this is daint: CLUSTER_NAME is daint",))
    assert choose_site(None, msgspec.structs.replace(facts, environment={})).name == "generic"


def test_detect_prints_the_site_alone_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "daint")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["site", "detect"]) == 0
    said = capsys.readouterr()
    assert said.out == "daint\n"
    assert "CLUSTER_NAME is daint" in said.err
    assert main(["site", "detect", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["site"], told["evidence"]) == ("daint", ["CLUSTER_NAME is daint"])
    monkeypatch.delenv("CLUSTER_NAME")
    assert main(["site", "detect", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["site"], told["evidence"]) == ("generic", [])
    assert main(["site", "detect"]) == 0
    said = capsys.readouterr()
    assert (said.out, "no site profile matches this host" in said.err) == ("generic\n", True)


def test_what_slurms_file_calls_the_cluster_is_a_sign_to_each_verb_as_it_is_to_a_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name = next(detect["cluster_names"][0] for detect in SHIPPED.values() if detect.get("cluster_names"))
    (tmp_path / "slurm.conf").write_text(f"ClusterName={name}\n")
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for words in (["site", "detect"], ["site", "show"]):
        assert main(words) == 0
        assert f"the cluster is called {name}" in capsys.readouterr().err
