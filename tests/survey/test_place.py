"""What a probe learns of the surroundings: engines, file systems and their rules, the way out, who pays."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.cli.app import main
from muster.errors import MachineLacks
from muster.facts import Facts
from muster.runner import ProgramResult
from muster.sites.load import load
from muster.sites.site import Site
from muster_check.survey.ask import survey
from muster_check.survey.draft import JOB_SCRIPT, draft, node_answers
from muster_check.survey.place import HOST, LOGIN_SCRIPT, _engines_script, reach_script
from muster_check.survey.verify import verify
from sites.profiles import bundled
from slurm.clusters import controller_text, partition_line

from .test_probe import ANSWERS, asked_alone, path_with

MOTD = """\
Welcome to Tinker!

Files in $SCRATCH that nobody read for 30 days are deleted on Mondays. $WORK is backed up every 2 days.

* /home is small.
"""
LOGIN = f"@@ engines\napptainer\npodman\n@@ places\nHOME nfs4\nSCRATCH lustre\nWORK gpfs\n@@ motd\n{MOTD}"


def drafted(folder: Path, **more: Any) -> Site:
    path = folder / "tinker.toml"
    path.write_text(draft(asked_alone(answers={**ANSWERS, "place": LOGIN}, **more), "tinker"))
    return load(str(path))


def test_places_are_known_by_their_variables_with_the_rule_of_the_message_of_the_day(tmp_path: Path) -> None:
    places = drafted(tmp_path).profile.filesystems
    assert {name: (each.path, each.scope, each.purge_days) for name, each in places.items()} == {
        "home": ("$HOME", "shared", None),
        "scratch": ("$SCRATCH", "shared", 30),
        "work": ("$WORK", "shared", None),
    }


def test_an_engine_is_asked_for_by_its_program_or_its_option_of_srun() -> None:
    script = _engines_script()
    assert "\ncommand -v apptainer >/dev/null && echo apptainer\n" in script
    assert "grep -q -e ' --container-image' && echo pyxis" in script
    assert "None" not in script


def test_engines_of_a_compute_node_count_before_those_of_the_login_node(tmp_path: Path) -> None:
    assert list(drafted(tmp_path).profile.containers) == ["apptainer", "podman"]
    site = drafted(tmp_path, node={"engines": "apptainer\npyxis", "arch": "x86_64"})
    assert list(site.profile.containers) == ["apptainer", "pyxis"]
    assert site.origin("containers.pyxis.engine").source is not None
    assert "# seen on a compute node" in (tmp_path / "tinker.toml").read_text()


@pytest.mark.parametrize(
    ("node", "internet", "proxies"),
    [
        ({"arch": "x86_64"}, None, {}),
        ({"reach": "yes"}, "open", {}),
        ({"reach": "no"}, "none", {}),
        (
            {"reach": "no", "proxies": "http_proxy=http://10.0.0.1:3128\nHTTP_PROXY=http://10.0.0.1:3128"},
            "proxy",
            {"http_proxy": "http://10.0.0.1:3128"},
        ),
        ({"proxies": "https_proxy=http://ada:secret@10.0.0.1:3128"}, None, {}),
    ],
)
def test_the_way_out_is_asked_and_not_assumed(
    node: dict[str, str], internet: str | None, proxies: dict[str, str], tmp_path: Path
) -> None:
    site = drafted(tmp_path, node=node)
    assert site.profile.network.internet == internet
    assert site.profile.network.proxies == proxies
    assert "secret" not in (tmp_path / "tinker.toml").read_text()
    assert ("--reach HOST" in (tmp_path / "tinker.toml").read_text()) == (node == {"arch": "x86_64"})


def test_accounts_come_from_the_controller_where_accounting_is_closed(tmp_path: Path) -> None:
    text = controller_text(
        partition_line("main"), ClusterName="tinker", AccountingStorageType="accounting_storage/slurmdbd"
    )

    def runner(argv: Sequence[str], **how: Any) -> ProgramResult:
        if argv[0] == "scontrol":
            return ProgramResult(tuple(argv), 0, text, "")
        if argv[0] == "sacctmgr":
            return ProgramResult(tuple(argv), 1, "", "sacctmgr: error: Only admins can view other users")
        if argv[0] == "sshare":
            assert "-U" in argv
            return ProgramResult(tuple(argv), 0, "physics\n chemistry\n", "")
        raise MachineLacks(argv[0], "no", hint="")

    environment = path_with(tmp_path, "scontrol", "sacctmgr")
    found = survey(Facts(hostname="login1", user="alice", environment=environment), runner=runner)
    (tmp_path / "tinker.toml").write_text(draft(found, "tinker"))
    assert load(str(tmp_path / "tinker.toml")).profile.request.account_example == "physics"
    assert "# yours: physics, chemistry" in (tmp_path / "tinker.toml").read_text()


def test_the_questions_are_shell_that_a_shell_reads_and_say_no_value_of_a_place(tmp_path: Path) -> None:
    scratch = tmp_path / "ada"
    scratch.mkdir()
    env = {"PATH": "/usr/bin:/bin", "SCRATCH": str(scratch), "WORK": "/nowhere"}
    done = subprocess.run(["bash", "-c", LOGIN_SCRIPT], env=env, capture_output=True, text=True, check=True)
    places = node_answers(done.stdout).get("places", "").splitlines()
    assert [line.split()[0] for line in places] == ["SCRATCH"]
    assert "ada" not in node_answers(done.stdout)["places"]
    for script in (LOGIN_SCRIPT, JOB_SCRIPT, reach_script("www.example.org")):
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_a_connection_is_tried_to_the_host_that_was_named(tmp_path: Path) -> None:
    done = subprocess.run(["bash", "-c", reach_script("localhost.invalid")], capture_output=True, text=True, check=True)
    assert node_answers(done.stdout) == {"reach": "no"}


@pytest.mark.parametrize("host", ["x", "a b.org", "$(id).org", "-rf.org", "a;b.org", "../etc", "a..b"])
def test_a_host_that_a_shell_would_read_is_refused(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not HOST.fullmatch(host)
    assert main(["site", "probe", f"--reach={host}"]) == 2
    assert "is not the name of a host" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["site", "check", "--srun=ü"], ["build", "venv", "--job-option=--", "x"]])
def test_a_word_that_srun_or_run_would_start_is_not_a_flag(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "is not a whole flag" in error
    assert "---" not in error


def test_what_disagrees_is_named_with_what_to_type_for_one_command() -> None:
    asked = asked_alone(node={"reach": "no"})
    (network,) = [finding for finding in verify(bundled("nibi"), asked) if finding.key == "network.internet"]
    assert (network.by, network.seen) == ("a compute node shows", "none")
    assert network.hint == "--site-set 'network.internet=\"none\"'"
    assert network.origin.line is not None
    assert "nibi.toml:" in network.words()


@pytest.mark.parametrize("hint", ['partitions.gpuA100x4.time_max="12:00:00"', 'network.internet="none"'])
def test_what_the_hint_says_can_be_typed(hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--site", "delta", "--site-set", hint, "-A", "x", "-N", "2", "-t", "5", "--", "python", "t.py"]
    assert main(words) == 0, capsys.readouterr().err
