"""Layers lie over each other key by key, and every value knows its file, its line and its document."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cli.app import main
from muster.errors import UnknownName
from muster.facts import Facts
from muster.older import tomllib
from muster.sites.heads import BUNDLED, SearchPath, heads
from muster.sites.layers import Layer, merge
from muster.sites.load import choose_site, load
from muster.sites.places import toml_lines

from .profiles import HEAD, NAMES, bundled, written


def test_a_stronger_layer_changes_one_value_and_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("# ours\n[rendezvous]\nport_low = 11000\n")
    site = load("lumi", SearchPath(site_wide=None, user=tmp_path))
    assert site.profile.rendezvous.port_low == 11000
    assert site.profile.rendezvous.host == "as-is"
    origin = site.origin("rendezvous.port_low")
    assert (origin.layer, origin.file, origin.line) == ("user", str(tmp_path / "site.toml"), 3)
    assert origin.source is None
    assert origin.words() == f"{tmp_path}/site.toml:3"
    assert site.origin("rendezvous.host").layer == "bundled"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("Alps", "did you mean 'clariden' or 'daint'?"),
        ("jeanzay", "did you mean 'jean-zay'?"),
        ("mn5", "did you mean 'marenostrum5'?"),
        ("TX-E1", "did you mean 'supercloud'?"),
        ("eurohpc", "muster site list lists them"),
        ("isambard", "did you mean 'isambard-ai'?"),
    ],
)
def test_a_site_is_found_by_what_people_call_it(typed: str, hint: str) -> None:
    with pytest.raises(UnknownName) as caught:
        load(typed)
    assert caught.value.hint == hint


def test_the_order_is_bundled_site_wide_user_project_command_line(tmp_path: Path) -> None:
    layers = ("site-wide", "user", "project")
    for number, layer in enumerate(layers):
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "site.toml").write_text(f"[rendezvous]\nport_low = {20001 + number}\n")
    search = SearchPath(
        site_wide=tmp_path / "site-wide", user=tmp_path / "user", project=tmp_path / "project" / "site.toml"
    )
    site = load("generic", search, {"rendezvous.port_high": 29999})
    assert [layer.kind for layer in site.layers] == ["bundled", *layers, "command line"]
    assert (site.profile.rendezvous.port_low, site.profile.rendezvous.port_high) == (20003, 29999)
    assert site.origin("rendezvous.port_high").layer == "command line"


def test_a_layer_that_names_a_site_holds_there_only(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('name = "lumi"\n[memory]\nmem = "100G"\n')
    search = SearchPath(site_wide=None, user=tmp_path)
    assert load("lumi", search).profile.memory.mem == "100G"
    assert load("clariden", search).profile.memory.mem == "450G"


def test_a_variable_of_the_same_name_and_condition_is_replaced_and_a_new_one_added(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        '[[environment]]\nname = "MIOPEN_USER_DB_PATH"\nvalue = "/tmp/mine"\nreason = "mine"\n'
        '[[environment]]\nname = "MINE"\nvalue = "1"\nreason = "mine"\n'
    )
    site = load("lumi", SearchPath(site_wide=None, user=tmp_path))
    found = {each.name: each.value for each in site.profile.environment}
    assert (found["MIOPEN_USER_DB_PATH"], found["MINE"]) == ("/tmp/mine", "1")
    assert site.origin("environment.MIOPEN_USER_DB_PATH").line == 1
    assert site.origin("environment.MINE").line == 5
    assert len(site.profile.environment) == len(bundled("lumi").profile.environment) + 1


def test_a_profile_that_extends_another_takes_its_facts_and_not_its_name(tmp_path: Path) -> None:
    written(tmp_path, HEAD + 'extends = "lumi"\nwithout = ["partitions"]\nqueue_rules = []\n')
    (tmp_path / "lumi.toml").write_text(Path(BUNDLED, "lumi.toml").read_text())
    site = load("mine", SearchPath(bundled=tmp_path, site_wide=None))
    assert (site.name, site.profile.complete, site.profile.detect.cluster_names) == ("mine", False, ())
    assert site.profile.nodes == bundled("lumi").profile.nodes
    assert not site.profile.partitions


def test_a_site_of_the_user_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    written(tmp_path / "sites", HEAD)
    search = SearchPath(site_wide=None, user=tmp_path)
    assert load("mine", search).name == "mine"
    assert "mine" in [head.name for head in heads(search)]
    written(tmp_path / "sites", 'muster_site = 1\nname = "lumi"\nsummary = "ours"\n', "lumi")
    lumi, bundled = (next(head for head in heads(each) if head.name == "lumi") for each in (search, SearchPath()))
    assert (lumi.title, lumi.summary) == (bundled.title, "ours")
    written(tmp_path / "sites", 'muster_site = 1\nname = "lumi"\ntitle = "Ours"\n', "lumi")
    lumi = next(head for head in heads(search) if head.name == "lumi")
    assert (lumi.title, lumi.summary) == ("Ours", bundled.summary)
    with pytest.raises(UnknownName):
        load("mine", SearchPath(site_wide=None))


def test_the_projects_layer_is_found_from_a_folder_below_it(tmp_path: Path) -> None:
    (tmp_path / "muster-site.toml").write_text("[rendezvous]\nport_low = 22000\n")
    (tmp_path / "src" / "deep").mkdir(parents=True)
    facts = Facts(working_directory=str(tmp_path / "src" / "deep"), home=str(tmp_path / "home"))
    site = choose_site("generic", facts)
    assert site.profile.rendezvous.port_low == 22000
    assert site.origin("rendezvous.port_low").layer == "project"


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_a_shipped_profile_is_found_at_its_line(name: str) -> None:
    text = Path(BUNDLED, f"{name}.toml").read_text()
    lines = text.splitlines()
    for path, number in toml_lines(text).items():
        last = next(part for part in reversed(path) if isinstance(part, str))
        assert last in lines[number - 1]
    tables = tomllib.loads(text)
    assert {path[0] for path in toml_lines(text)} == set(tables)


_KEYS = st.sampled_from(["a", "b", "c"])
_TABLES = st.recursive(
    st.integers(0, 9) | st.text("xy", max_size=2) | st.lists(st.integers(0, 9), max_size=2),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(_KEYS, _TABLES, max_size=3), min_size=1, max_size=4))
def test_each_leaf_has_the_value_of_the_layer_that_it_names(tables: list[dict[str, object]]) -> None:
    layers = [Layer("user", str(number), "", table) for number, table in enumerate(tables)]
    merged = merge(layers)
    for path, (index, there) in merged.origins.items():
        value: object = merged.table
        said: object = tables[index]
        for part, part_there in zip(path, there):
            value = value[part]  # type: ignore[index]
            said = said[part_there]  # type: ignore[index]
        if not isinstance(value, dict):
            assert value == said


@given(st.dictionaries(_KEYS, _TABLES, max_size=3))
def test_one_layer_alone_is_what_it_says(table: dict[str, object]) -> None:
    assert merge([Layer("user", "f", "", table)]).table == table


def test_what_is_typed_wins_over_every_file_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["plan", "--site", "lumi", "-A", "project_465000000", "-N", "2", "-t", "30", "--as", "why"]
    assert main([*words, "--site-set", "memory.mem=400G", "--site-set", "rendezvous.port_low=15000", "--", "x"]) == 0
    said = capsys.readouterr().out
    assert "#SBATCH --mem=400G" in said
    assert "[the command line]" in said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("memory.memm=4G", "memory.memm: there is no such key"),
        ("memory.mem=much", "memory.mem: expected a memory size"),
        ("launch.mpi=[1]", "launch.mpi: expected"),
        ("memory.mem", "is not KEY=VALUE"),
        ("=3", "is not KEY=VALUE"),
        ("memory.mem.more=3", "memory.mem"),
    ],
)
def test_a_typed_value_that_does_not_fit_is_a_sentence(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--site", "lumi", "--site-set", typed, "--", "x"]) == 2
    assert said in capsys.readouterr().err
