"""`site check --job` asks two nodes and launches over both: a fact that does not hold there is found with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.probe.judge import stopped_at
from muster.runner import run
from muster.sites.heads import SearchPath
from muster.sites.load import load
from muster.sites.site import Site
from muster_check.survey.nodes import answers_of, findings_of_nodes, node_script
from plugins.labs import MUSTER, Lab, Person, lab_up
from sites.golden_scripts import Case, made_of
from sites.profiles import NAMES, bundled

# The places of a lab, laid over the profile: what is then broken is broken alone.
LAB_PLACES = """\
name = "clariden"
without = ["images", "filesystems", "containers.ce.binds", "fabric.interfaces"]

[fabric]
interfaces = ["eth0"]

[filesystems.home]
path = "/usr"
use = "what every host has"

[[containers.ce.binds]]
path = "/etc"
reason = "what every host has"

[images.here]
path = "/bin/sh"
engine = "ce"
"""

# One fact at a time: what is laid over that, and the key that has to be found.
BROKEN: tuple[tuple[str, str], ...] = (
    ('[fabric]\ninterfaces = ["eth0", "hsn9"]\n', "fabric.interfaces"),
    ('[rendezvous]\nhost = "interface"\ninterface = "ib9"\n', "rendezvous.interface"),
    ('[rendezvous]\nhost = "suffix"\nsuffix = "i"\n', "rendezvous.suffix"),
    ('[filesystems.home]\npath = "/no/such/place"\n', "filesystems.home.path"),
    ('[[containers.ce.binds]]\npath = "/no/such/bind"\nreason = "r"\n', "containers.ce.binds./no/such/bind"),
    ('[images.here]\npath = "/no/such.sqsh"\n', "images.here.path"),
)
# The same for the launch over both nodes.
BROKEN_LAUNCH: tuple[tuple[str, str], ...] = (
    # Slurm's own word in each task wins over the script's.
    ('[[environment]]\nname = "SLURM_LAUNCH_NODE_IPADDR"\nvalue = "10.9.8.7"\nreason = "r"\n', "environment."),
    ('[[commands]]\nargv = ["no-such-command"]\nwhere = "batch"\nreason = "r"\n', "commands"),
    ('[[commands]]\nargv = ["false"]\nwhere = "node"\nreason = "r"\n', "commands"),
    ('[modules]\nsystem = "lmod"\nload = ["no/such"]\ninit = ["/no/such/init"]\n', "modules"),
    ('[launch]\nsrun = ["--no-such-flag"]\n', "request"),
)


def answers(site: Site, lab: Lab) -> Any:
    argv = ["srun", "--nodes=2", "--ntasks-per-node=1", "--time=1", "sh", "-c", node_script(site.profile)]
    done = lab.exec(argv)
    assert done.ok, done.stderr
    return answers_of(done.stdout)


@pytest.fixture(scope="module")
def clariden(tester: Person) -> Any:
    with lab_up(tester, "check-nodes", "--like", "clariden", "-N", "2") as lab:
        yield lab


def laid_over(folder: Path, *texts: str) -> Site:
    """The profile with the lab's places, and one more layer."""
    (folder / "user").mkdir(parents=True)
    (folder / "user" / "site.toml").write_text(LAB_PLACES)
    project = folder / "muster-site.toml"
    project.write_text("".join(texts) or "\n")
    return load("clariden", SearchPath(site_wide=None, user=folder / "user", project=project))


@pytest.mark.lab
def test_where_all_holds_nothing_is_found_and_one_broken_fact_is_found_alone(clariden: Lab, scratch: Path) -> None:
    whole = laid_over(scratch / "whole")
    seen = answers(whole, clariden)

    assert list(findings_of_nodes(whole, seen)) == []
    assert {question for question, _ in seen} == {"interface", "path", "address", "reach"}
    for number, (text, key) in enumerate(BROKEN):
        site = laid_over(scratch / f"broken-{number}", text)
        (finding,) = findings_of_nodes(site, answers(site, clariden))
        assert finding.key == key, finding.words()
        assert finding.origin.file.endswith("muster-site.toml")
        assert finding.origin.line is not None
        assert "gh200-n" in finding.seen


@pytest.mark.lab
def test_the_launch_over_two_nodes_is_part_of_the_check(clariden: Lab, scratch: Path) -> None:
    home = scratch / "home"
    (home / "muster").mkdir(parents=True)
    (home / "muster" / "site.toml").write_text(LAB_PLACES)
    # What a lab of this machine has otherwise: its processor, its network, no host without GPUs.
    unlike = {"launch.slurm", "fabric.kind", "nodes.gh200.arch", "partitions.xfer.gpus", "containers.ce"}
    for number, (text, key) in enumerate((("\n", ""), *BROKEN_LAUNCH)):
        project = scratch / f"launch-{number}"
        project.mkdir()
        (project / "muster-site.toml").write_text(text)
        environment = {"XDG_CONFIG_HOME": str(home), "PWD": str(project)}
        done = clariden.exec(
            [MUSTER, "site", "check", "clariden", "--job", "--json"], env=environment, cwd=project, timeout_s=240
        )
        found = {row["key"] for row in json.loads(done.stdout)["findings"]} - unlike
        if not key:
            assert found == set(), done.stdout
        else:
            assert found, text
            assert all(each.startswith(key) for each in found), found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.programs
def test_the_questions_to_a_node_are_posix_sh(name: str) -> None:
    script = node_script(bundled(name).profile)

    done = run(["shellcheck", "--shell=sh", "-e", "SC2043,SC2066,SC2086", "-"], stdin=script)

    assert done.ok, done.stdout


def test_what_a_node_answers_is_read_among_other_lines() -> None:
    said = "@n1|interface|hsn0|up\nnoise\n0: @n2|interface|hsn0|down\n@n1|path|/a b|missing\n"

    assert answers_of(said) == {("interface", "hsn0"): {"n1": "up", "n2": "down"}, ("path", "/a b"): {"n1": "missing"}}


@pytest.mark.parametrize(
    ("seen", "keys"),
    [
        ({("address", "n1"): {"n1": "none"}}, ["rendezvous.host"]),
        ({("address", "n1"): {"n1": "10.0.0.1"}, ("reach", "n1"): {"n2": "no"}}, ["rendezvous.host"]),
        ({("address", "n1"): {"n1": "none"}, ("reach", "n1"): {"n2": "no"}}, ["rendezvous.host"]),
        ({("reach", "n1"): {"n2": "yes"}}, []),
        ({("path", "/x"): {"n1": "none", "n2": "no"}}, []),
    ],
)
def test_a_host_without_an_address_or_an_answer_is_found(seen: Any, keys: list[str]) -> None:
    assert [finding.key for finding in findings_of_nodes(bundled("delta"), seen)] == keys


def test_an_interface_that_is_down_on_one_node_names_the_node() -> None:
    site = bundled("lumi")
    seen = {("interface", name): {"n1": "up", "n2": "down" if name == "hsn2" else "up"} for name in ("hsn0", "hsn2")}

    (finding,) = findings_of_nodes(site, seen)

    assert finding.key == "fabric.interfaces"
    assert "hsn2: down on n2" in finding.words()
    assert "lumi.toml:" in finding.words()


def test_a_host_that_does_not_answer_is_found() -> None:
    seen = {("address", "n1"): {"n2": "10.0.0.1"}, ("reach", "n1"): {"n2": "no"}}

    (finding,) = findings_of_nodes(bundled("lumi"), seen)

    assert finding.key == "rendezvous.host"
    assert finding.seen == "no answer from n1 (no on n2)"


def test_a_script_that_stopped_says_at_which_line_of_the_profile() -> None:
    made = made_of(Case("supercloud", "four-nodes", "srun", "venv"))

    point = stopped_at(made, "muster: error: module load cuda/12.2 or cuda/11.6 failed\n\nhint: …")

    assert point is not None
    assert point.key == "modules.load"
