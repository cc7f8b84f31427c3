"""The shipped profiles: all load, every fact has a source and a date, the complete ones lack nothing, and no site's
name stands in the code.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import asdict

from muster.cli.app import main
from muster.errors import ProfileError
from muster.policy.masks import core_list
from muster.runner import run
from muster.sites.heads import BUNDLED, SearchPath
from muster.sites.load import load
from muster.sites.schema import Profile
from muster.sites.tell import lines, missing_keys
from muster.sites.text import file_of_tables, parse_toml, read_text, tables_read_before
from muster.sites.when import Situation, holds, say_when
from muster.units import parse_walltime_s

from .golden_scripts import Case, script_of
from .profiles import COMPLETE, FILLED, NAMES, SITES, bundled

# Names of the profile itself, and what a dated list of absences covers.
_NO_FACT = re.compile(r"(name|ran|title|system|summary|complete|trust)$")


def test_there_are_thirty_sites_at_least_and_two_that_fit_everywhere() -> None:
    assert set(NAMES) == {*SITES, "generic", "laptop"}
    assert len(SITES) >= 30


@pytest.mark.parametrize("name", NAMES)
def test_every_value_has_a_document_and_a_date(name: str) -> None:
    site = bundled(name)
    without = [line.key for line in lines(site) if not _NO_FACT.match(line.key) and line.origin.source is None]
    assert not without
    for source in site.profile.sources.values():
        assert dt.date(2026, 1, 1) <= source.checked
        assert source.dated is None or source.dated <= source.checked


@pytest.mark.parametrize("name", NAMES)
def test_every_document_that_is_listed_says_something(name: str) -> None:
    family = {name, bundled(name).profile.extends or name}
    text = "".join(Path(BUNDLED, f"{each}.toml").read_text() for each in family)
    used = set(re.findall(r'source = "([\w-]+)"', text))
    used |= {str(fact) for each in family for fact in bundled(each).profile.facts.values()}
    assert set(bundled(name).profile.sources) <= used


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_that_a_launch_reads_are_those_of_the_file(name: str) -> None:
    path = Path(BUNDLED, f"{name}.toml")
    assert tables_read_before(path, read_text(path)) == parse_toml(read_text(path), str(path))
    assert bundled(name).profile == msgspec.convert(bundled(name).merged.table, Profile)


def test_a_bundled_profile_that_somebody_has_edited_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "laptop.toml"
    path.write_text(Path(BUNDLED, "laptop.toml").read_text().replace("port_low = 20000", "port_low = 21000"))
    Path(file_of_tables(path)).parent.mkdir()
    shutil.copy(file_of_tables(f"{BUNDLED}/laptop.toml"), file_of_tables(path))

    assert tables_read_before(path, read_text(path)) is None
    assert load("laptop", SearchPath(bundled=tmp_path, site_wide=None)).profile.rendezvous.port_low == 21000


@pytest.mark.parametrize(("right", "wrong"), [("title =", "titel ="), ("title =", "# "), ("as-is", "as-was")])
def test_a_bundled_profile_that_somebody_has_edited_is_checked(tmp_path: Path, right: str, wrong: str) -> None:
    (tmp_path / "laptop.toml").write_text(Path(BUNDLED, "laptop.toml").read_text().replace(right, wrong, 1))
    with pytest.raises(ProfileError):
        load("laptop", SearchPath(bundled=tmp_path, site_wide=None))


@pytest.mark.parametrize("name", NAMES)
def test_the_top_of_the_file_is_enough_to_recognise_the_site(name: str) -> None:
    headers = re.findall(r"^\[+([a-z_]+)", Path(BUNDLED, f"{name}.toml").read_text(), re.MULTILINE)
    assert "detect" not in headers[1:]
    assert bundled(name).profile.name == name
    assert bundled(name).profile.summary


def test_no_two_sites_have_the_same_sign() -> None:
    signs = [
        (kind, sign)
        for name in NAMES
        for kind, found in asdict(bundled(name).profile.detect).items()
        if kind in {"cluster_names", "hosts", "files", "environment"}
        for sign in (found.items() if isinstance(found, dict) else found)
    ]
    assert len(signs) == len(set(signs))


@pytest.mark.parametrize("name", FILLED)
def test_a_filled_profile_has_a_value_or_a_dated_absence_for_every_key(name: str) -> None:
    assert list(missing_keys(bundled(name))) == []


@pytest.mark.parametrize("name", COMPLETE)
def test_a_complete_profile_rests_on_the_sites_own_documents(name: str) -> None:
    assert (bundled(name).profile.complete, bundled(name).profile.trust) == (True, "own")


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(COMPLETE)))
def test_a_profile_that_lacks_something_does_not_call_itself_complete(name: str) -> None:
    assert not bundled(name).profile.complete


@pytest.mark.parametrize("name", NAMES)
def test_a_third_partys_word_is_marked_as_such_wherever_it_is_shown(name: str) -> None:
    for line in lines(bundled(name)):
        if line.origin.trust == "T":
            assert line.origin.words().endswith("third party")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_unverified_is_no_value_of_the_profile(name: str) -> None:
    site = bundled(name)
    for offer in site.profile.unverified:
        assert site.get(offer.key) != offer.value


@pytest.mark.parametrize("name", NAMES)
def test_the_units_of_every_queue_can_be_read(name: str) -> None:
    for queue in (*bundled(name).profile.partitions.values(), *bundled(name).profile.qos.values()):
        for text in (queue.time_max, queue.time_default, *(step.time_max for step in queue.time_by_nodes)):
            assert text is None or parse_walltime_s(text)
        sizes = [step.nodes_max for step in queue.time_by_nodes if step.nodes_max]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize("name", NAMES)
def test_cores_and_gpus_of_a_node_add_up(name: str) -> None:
    for node in bundled(name).profile.nodes.values():
        if node.numa and node.cores:
            assert sorted(core for domain in node.numa for core in core_list(domain)) == list(range(node.cores))
        if node.gpus and node.gpus_physical:
            assert node.gpus % node.gpus_physical == 0


@pytest.mark.parametrize("name", NAMES)
def test_all_gpus_are_visible_by_default_on_every_site(name: str) -> None:
    assert bundled(name).profile.devices.visibility in {None, "all"}


@pytest.mark.parametrize("name", NAMES)
def test_no_value_is_shell_text(name: str) -> None:
    profile = bundled(name).profile
    words = [*(profile.launch.srun or ()), *(profile.launch.mpirun or ()), *(profile.request.sbatch or ())]
    words += [word for command in profile.commands for word in command.argv]
    words += [variable.value for variable in profile.environment if variable.value]
    assert not [word for word in words if re.search(r"[;`|<>\n]|\$\(", word)]


def test_nccl_net_is_not_forced_on_one_node_anywhere() -> None:
    for name in NAMES:
        for variable in bundled(name).profile.environment:
            if variable.name == "NCCL_NET" and variable.verdict == "kept":
                for stack in (None, "uenv", "extended-image", "ce-hook"):
                    assert not holds(variable.when, Situation(nodes=1, gpus_per_node=4, stack=stack))


@pytest.mark.parametrize("name", ["clariden", "daint"])
def test_ll128_is_kept_out_where_it_corrupts_sums(name: str) -> None:
    job = Situation(nodes=2, gpus_per_node=4, gpu_kind="gh200", stack="uenv")
    found = [each for each in bundled(name).profile.environment if each.name == "NCCL_PROTO" and holds(each.when, job)]
    assert [(each.value, each.required) for each in found] == [("^LL128", True)]
    assert "correctness" in found[0].reason


def test_an_address_gets_an_i_behind_it_where_the_site_says_so_and_nowhere_else() -> None:
    with_suffix = {name for name in NAMES if bundled(name).profile.rendezvous.host == "suffix"}
    assert with_suffix == {"juwels-booster"}
    assert bundled("juwels-booster").profile.rendezvous.suffix == "i"
    assert bundled("jupiter").profile.rendezvous.host == "as-is"


def test_supercloud_asks_for_typed_gres_and_starts_with_mpirun() -> None:
    profile = bundled("supercloud").profile
    assert (profile.request.gpus, profile.request.gpu_type) == ("gres", "volta")
    assert profile.launch.preferred == "mpirun"
    assert profile.launch.mpirun == ("--bind-to", "socket", "--map-by", "socket")


def test_marenostrum_wants_account_qos_and_twenty_cores_a_gpu() -> None:
    profile = bundled("marenostrum5").profile
    assert {"account", "qos"} <= set(profile.request.required or ())
    assert (profile.nodes["acc"].cores_per_gpu, profile.nodes["acc"].cores_per_gpu_required) == (20, True)


def test_horeka_keeps_pmi2_from_the_document_of_2022_and_says_so() -> None:
    site = bundled("horeka")
    assert site.profile.launch.mpi == "pmi2"
    source = site.origin("launch.mpi").source
    assert source is not None
    assert source.dated == dt.date(2022, 2, 7)


def test_conditions_are_said_in_words() -> None:
    for name in NAMES:
        for variable in bundled(name).profile.environment:
            assert (variable.when is None) == (say_when(variable.when) == "")


def test_list_and_show_answer_on_stdout_with_stable_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(NAMES) <= {row["name"] for row in listed}
    assert set(listed[0]) == {"name", "title", "summary", "complete", "layer", "file"}
    assert main(["site", "show", "lumi", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) == {"site", "layers", "profile", "origins", "missing"}
    assert shown["origins"]["memory.mem"]["trust"] == "D"
    assert shown["origins"]["memory.mem"]["checked"].startswith("20")
    assert {str(origin["checked"])[:2] for origin in shown["origins"].values()} == {"20", "No"}


def test_show_why_prints_reason_document_and_date_and_the_word_unverified(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "show", "clariden", "--why"]) == 0
    said = capsys.readouterr().out
    assert "CSCS documentation, NCCL, checked 2026-11-20" in said
    assert "unverified: at most 32 nodes" in said
    assert "not published, looked for on 2026-11-20" in said


@pytest.mark.parametrize("words", [["show", "lummi"], ["lst"], ["list", "--jsn"], ["show", "lumi", "daint"]])
def test_a_wrong_word_is_answered_with_a_sentence_and_a_hint(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["site", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "muster: error: " in said.err
    assert "hint: " in said.err


def test_listing_reads_the_tops_of_the_files_and_loads_no_schema() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "muster", "site", "list"]
    done = run(command)
    assert done.ok
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not loaded & {"muster.sites.schema", "rich", "torch"}


@pytest.mark.parametrize("name", ["clariden", "daint"])
def test_alps_runs_images_by_an_edf_and_shows_all_gpus_with_the_reason(name: str) -> None:
    advice = bundled(name).profile.devices.site_advice or ""
    assert "--gpus-per-task=1" in advice
    assert "Muster shows all four, because set_device(LOCAL_RANK) would then fail on every rank but 0" in advice

    script = script_of(Case(name, "four-nodes", "srun", "container"))
    assert '--environment="$muster_run_dir"/image.toml' in script
    assert "[annotations]" in script
    assert re.search(r"^#SBATCH .*--gpus-per-node=4\b", script, re.MULTILINE)
    assert "gpus-per-task" not in script.partition("job() {")[0]


def test_lumis_container_has_its_two_bind_modules_hsn_and_both_caches_on_the_node() -> None:
    script = re.sub(r" \\\n +", " ", script_of(Case("lumi", "four-nodes", "srun", "container")))
    for line in (
        "muster_use /appl/local/laifs/modules",
        "muster_load lumi-aif-singularity-bindings",
        " NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3",
        ' MIOPEN_USER_DB_PATH="${TMPDIR:-/tmp}"/miopen-"$muster_job"',
        ' MIOPEN_CUSTOM_CACHE_DIR="${TMPDIR:-/tmp}"/miopen-"$muster_job"',
        "muster_node_prologue rocm-smi",
        "--bind /usr/lib64/libcxi.so.1",
    ):
        assert line in script, line
