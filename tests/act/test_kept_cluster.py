"""What Slurm says of a cluster is asked once an hour, and kept where nobody else can write it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from muster.act.kept_cluster import KEPT_S, KnownCluster, know_cluster, with_states_now
from muster.errors import SchedulerSilent
from muster.facts import Facts
from muster.runner import ProgramResult
from slurm.clusters import accounting_text, controller_text, kind_line, partition_line


class Slurm:
    """Slurm's clients, as far as they are asked; `silent`: those that hang."""

    def __init__(self, *, accounting: bool = False, silent: Sequence[str] = (), error: str = "") -> None:
        store = "accounting_storage/slurmdbd" if accounting else "accounting_storage/none"
        self.answers = {"scontrol": "", "sacctmgr": accounting_text("chem|chem||normal|")}
        self.store = store
        self.enforce("none")
        self.silent, self.error, self.asked = silent, error, list[str]()
        self.waited: list[float] = []

    def enforce(self, what: str) -> None:
        words = {"AccountingStorageType": self.store, "AccountingStorageEnforce": what}
        main, nodes = partition_line("main", Default="YES"), [kind_line("main", 4, gres="gpu:4")]
        self.answers["scontrol"] = controller_text(main, nodes=nodes, **words)

    def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: object = None,
        stdin: str | None = None,
        timeout_s: float = 60.0,
    ) -> ProgramResult:
        self.asked.append(argv[0])
        self.waited.append(timeout_s)
        if argv[0] in self.silent:
            raise SchedulerSilent(f"{argv[0]} did not answer within {timeout_s:g} s")
        if self.error:
            return ProgramResult(tuple(argv), 1, "", self.error)
        return ProgramResult(tuple(argv), 0, self.answers[argv[0]], "")


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    programs = tmp_path / "opt" / "bin"
    programs.mkdir(parents=True)
    for name in ("scontrol", "sacctmgr"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    configuration = tmp_path / "slurm.conf"
    configuration.write_text("ClusterName=tinker\n")
    environment = {"PATH": str(programs), "SLURM_CONF": str(configuration)}
    return Facts(environment=environment, home=str(tmp_path / "home"), user="ada", hostname="login1")


def test_a_second_command_asks_nothing(facts: Facts) -> None:
    slurm = Slurm()
    first = know_cluster(facts, runner=slurm, now=1000.0)
    assert slurm.asked == ["scontrol"]
    again = know_cluster(facts, runner=slurm, now=1000.0 + KEPT_S - 1)
    assert slurm.asked == ["scontrol"]
    assert (again.facts, again.is_kept, first.is_kept) == (first.facts, True, False)
    assert again.facts is not None
    assert again.facts.name == "tinker"


def test_a_partition_that_was_set_down_within_the_hour_is_known_before_a_job_is_queued(facts: Facts) -> None:
    slurm = Slurm()
    first = know_cluster(facts, runner=slurm, now=1000.0)
    kept = know_cluster(facts, runner=slurm, now=1060.0)
    slurm.answers["scontrol"] = partition_line("main", Default="YES", State="DOWN")

    assert with_states_now(first, facts, runner=slurm) is first, "Slurm has just said it"
    soon = know_cluster(facts, runner=slurm, now=1059.0)
    assert with_states_now(soon, facts, runner=slurm) is soon, "Slurm said it less than a minute ago"
    assert slurm.asked == ["scontrol"]
    now = with_states_now(kept, facts, runner=slurm)
    assert [(each.name, each.is_up) for each in (now.facts.partitions if now.facts else ())] == [("main", False)]
    slurm.silent = ["scontrol"]
    assert with_states_now(kept, facts, runner=slurm) == kept, "where Slurm is silent, what it said stays"


def test_accounts_are_asked_for_where_the_cluster_keeps_them(facts: Facts) -> None:
    slurm = Slurm(accounting=True)
    known = know_cluster(facts, runner=slurm, now=1000.0)
    assert slurm.asked == ["scontrol", "sacctmgr"]
    assert known.facts is not None
    assert [association.account for association in known.facts.associations or ()] == ["chem"]
    slurm.enforce("limits")
    limited = know_cluster(facts, fresh=True, runner=slurm, now=1000.0)
    assert slurm.asked[2:] == ["scontrol", "sacctmgr", "sacctmgr"], (
        "the limits of accounts are asked for where they hold"
    )
    assert limited.facts is not None
    assert not limited.facts.unanswered, "accounts that are private are no silence"


def test_an_answer_of_an_hour_ago_is_asked_for_again(facts: Facts) -> None:
    slurm = Slurm()
    know_cluster(facts, runner=slurm, now=1000.0)
    assert not know_cluster(facts, runner=slurm, now=1000.0 + KEPT_S).is_kept
    assert not know_cluster(facts, runner=slurm, now=1000.0).is_kept, "an answer of the future is none"


def test_fresh_asks_again(facts: Facts) -> None:
    slurm = Slurm()
    know_cluster(facts, runner=slurm, now=1000.0)
    assert not know_cluster(facts, fresh=True, runner=slurm, now=1001.0).is_kept
    assert slurm.asked.count("scontrol") == 2


def test_a_changed_configuration_is_asked_about_again(facts: Facts) -> None:
    slurm = Slurm()
    know_cluster(facts, runner=slurm, now=1000.0)
    Path(facts.environment["SLURM_CONF"]).write_text("ClusterName=tinker\nPartitionName=more\n")
    assert not know_cluster(facts, runner=slurm, now=1001.0).is_kept


def test_two_clusters_that_share_a_home_are_kept_apart(facts: Facts, tmp_path: Path) -> None:
    slurm = Slurm()
    know_cluster(facts, runner=slurm, now=1000.0)
    other = tmp_path / "other.conf"
    other.write_text("ClusterName=tinker\n")
    there = Facts(
        environment={**facts.environment, "SLURM_CONF": str(other)}, home=facts.home, user="ada", hostname="login1"
    )
    assert not know_cluster(there, runner=slurm, now=1001.0).is_kept
    assert know_cluster(facts, runner=slurm, now=1001.0).is_kept
    hidden = {**facts.environment, "SLURM_CONF": str(tmp_path / "absent.conf")}
    for host in ("login1", "login2"):
        nowhere = Facts(environment=hidden, home=facts.home, user="ada", hostname=host)
        assert not know_cluster(nowhere, runner=slurm, now=1001.0).is_kept


def test_the_file_is_this_users_alone(facts: Facts) -> None:
    know_cluster(facts, runner=Slurm(), now=1000.0)
    (file,) = Path(facts.home, ".cache/muster/clusters").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_others_may_write_is_not_read(facts: Facts) -> None:
    slurm = Slurm()
    know_cluster(facts, runner=slurm, now=1000.0)
    (file,) = Path(facts.home, ".cache/muster/clusters").iterdir()
    file.chmod(0o666)
    assert not know_cluster(facts, runner=slurm, now=1001.0).is_kept


@pytest.mark.parametrize("text", ["", "{", '{"stamp": 1}', '{"stamp": "x", "asked": "now"}'])
def test_a_damaged_file_costs_the_requests_and_nothing_else(facts: Facts, text: str) -> None:
    slurm = Slurm()
    know_cluster(facts, runner=slurm, now=1000.0)
    (file,) = Path(facts.home, ".cache/muster/clusters").iterdir()
    file.write_text(text)
    known = know_cluster(facts, runner=slurm, now=1001.0)
    assert known.facts is not None
    assert not known.is_kept


def test_a_home_that_cannot_be_written_is_no_error(facts: Facts, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    here = Facts(environment=facts.environment, home=str(blocked), user="ada", hostname="login1")
    assert know_cluster(here, runner=Slurm(), now=1000.0).facts is not None


def test_a_silent_controller_is_asked_once_a_minute_and_said(facts: Facts) -> None:
    slurm = Slurm(silent=["scontrol"])
    known = know_cluster(facts, runner=slurm, now=1000.0)
    assert known.facts is None
    assert "scontrol did not answer" in known.silence
    assert slurm.asked == ["scontrol"], "who does not answer one question is not asked the next"
    assert know_cluster(facts, runner=slurm, now=1030.0).silence == known.silence
    assert slurm.asked == ["scontrol"]
    assert know_cluster(facts, runner=Slurm(), now=1061.0).facts is not None


def test_all_answers_together_are_bounded(facts: Facts) -> None:
    slurm = Slurm(accounting=True)
    know_cluster(facts, runner=slurm, now=1000.0)
    assert max(slurm.waited) <= 3.0


def test_what_one_client_does_not_say_is_unknown_and_the_rest_is_known(facts: Facts) -> None:
    slurm = Slurm(accounting=True, silent=["sacctmgr"])
    known = know_cluster(facts, runner=slurm, now=1000.0)
    assert known.facts is not None
    assert known.facts.partition("main") is not None
    assert any("sacctmgr" in client for client in known.facts.unanswered)
    assert known.facts.associations is None
    assert know_cluster(facts, runner=slurm, now=1500.0).is_kept
    assert not know_cluster(facts, runner=slurm, now=1601.0).is_kept, "what is missing is asked for again sooner"


def test_a_database_that_is_not_reached_is_not_an_empty_one(facts: Facts) -> None:
    """As sacctmgr 22.05 ends where no slurmdbd listens: it prints its prompts, and fails."""
    slurm = Slurm(accounting=True)
    slurm.answers["sacctmgr"] = "sacctmgr: show user ada withassoc\nsacctmgr: show qos\nsacctmgr: quit\n"
    known = know_cluster(facts, runner=slurm, now=1000.0)
    assert known.facts is not None
    assert known.facts.associations is None
    assert any("sacctmgr ended with status" in client for client in known.facts.unanswered)


def test_where_no_cluster_is_set_up_nothing_is_said(facts: Facts) -> None:
    error = "scontrol: fatal: Could not establish a configuration source"
    assert know_cluster(facts, runner=Slurm(error=error), now=1000.0) == KnownCluster()


def test_without_slurm_nothing_is_asked(facts: Facts) -> None:
    slurm = Slurm()
    nowhere = Facts(environment={"PATH": "/nowhere"}, home=facts.home, user="ada")
    assert know_cluster(nowhere, runner=slurm) == KnownCluster()
    assert slurm.asked == []


def test_old_files_are_removed(facts: Facts) -> None:
    folder = Path(facts.home, ".cache/muster/clusters")
    folder.mkdir(parents=True, mode=0o700)
    old = folder / "00000000.json"
    old.write_text("{}")
    os.utime(old, (1000.0, 1000.0))
    know_cluster(facts, runner=Slurm(), now=1000.0 + 25 * KEPT_S)
    assert not old.exists()
