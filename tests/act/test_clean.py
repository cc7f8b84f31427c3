"""muster clean: what is old goes once somebody agrees; what a job needs, or wrote, stays."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

import muster
from muster.act.clean import CleanRules, find_leftovers, remove_leftover, remove_passed
from muster.act.record import Run, find_run, forget, register
from muster.follow.hang_report import HANG_REPORT
from muster.follow.links import jobs_that_go_on
from muster.render.folder import folder_name
from muster.runner import ProgramResult
from plugins.forked import run_muster

DAY_S = 24 * 3600


@pytest.fixture
def asked(tmp_path: Path) -> CleanRules:
    return CleanRules(
        state=tmp_path / "state/muster",
        libraries=tmp_path / "data/muster/rank-library",
        package=tmp_path / "package",
        cluster="here",
        living=frozenset(),
        older_s=30 * DAY_S,
    )


def _run(asked: CleanRules, job: str, *, days: float = 40, cluster: str = "here", files: tuple[str, ...] = ()) -> Run:
    directory = asked.state.parent.parent / "muster-runs" / job
    for name in ("plan.json", "job.sh", "logs/batch.log", "logs/attempt-2/node1.log", *files):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("text")
    for path in [*directory.rglob("*"), directory]:
        os.utime(path, (time.time() - days * DAY_S,) * 2)
    made = Run(job, directory, "train", cluster, int(time.time() - days * DAY_S))
    register(asked.state, made)
    return made


def _told(asked: CleanRules) -> dict[str, str | None]:
    return {f"{each.kind} {each.path.name}": each.kept for each in find_leftovers(asked)}


def test_old_run_directories_go_and_young_ones_are_not_named(asked: CleanRules) -> None:
    old, young = _run(asked, "1"), _run(asked, "2", days=10)

    (found,) = find_leftovers(asked)
    assert (found.path, found.kept) == (old.directory, None)
    remove_leftover(found, asked.state)

    assert not old.directory.exists()
    assert young.directory.exists()
    assert find_run(asked.state, "1", "here") is None
    assert find_run(asked.state, "2", "here") == young


def test_what_a_job_needs_that_waits_or_runs_stays(asked: CleanRules) -> None:
    _run(asked, "1", files=("passed",))

    assert _told(replace(asked, living={"1"})) == {"run 1": "job 1 waits or runs"}


def test_what_the_job_wrote_stays_unless_it_is_asked_for(asked: CleanRules) -> None:
    for job, file in (("1", "model.pt"), ("2", "snapshot/here.txt"), ("3", "logs/profile.json"), ("4", "task-0/x.pt")):
        _run(asked, job, files=(file,))

    told = _told(asked)
    assert told["run 1"] == "it holds what the job wrote: model.pt (--with-results)"
    assert all(kept is not None for kept in told.values())
    assert set(_told(replace(asked, with_results=True)).values()) == {None}


def test_what_muster_wrote_beside_a_job_is_no_result(asked: CleanRules) -> None:
    """Every file that the script and its supervisor write into a run directory, by their own text."""
    package = Path(muster.__file__).parent
    shell = package / "render" / "shell"
    by_supervisor = {
        name.replace("%d", "2")
        for part in (package / "life").glob("*.py")
        for name in re.findall(r"(?:files|self)\.(?:add|put|claim)\(\s*['\"]([a-z][\w%.-]*)", part.read_text())
    }
    names = by_supervisor | {
        name.replace("$muster_link", "2").replace("$muster_job", "7")
        for part in shell.rglob("*.sh")
        for name in re.findall(r"muster_run_dir/([a-z.][\w.$-]*)", part.read_text())
        if name not in {"logs", "ranks"}
    }
    assert {"links", "link-2", "ends", "array", "saves", "progress"} <= by_supervisor
    # How ranks ended: a folder for each start, a file for each attempt and node.
    names |= {"ranks/7.1700000000.4242/1.0", "ranks/7.1700000000.4242/2.13"}
    for job, folder in (("1", ""), ("2", "task-3/"), ("3", "roles/serve/")):
        _run(
            asked,
            job,
            files=tuple(f"{folder}{name}" for name in sorted({*names, HANG_REPORT, "row.json"} - {"passed"})),
        )

    _run(
        asked, "4", files=("roles/roles.json", "roles/events", "roles/events.1700000000", "roles/serve/logs/batch.log")
    )

    assert _told(asked) == {f"run {job}": None for job in "1234"}


@pytest.mark.parametrize(
    "name", ["roles/serve/model.pt", "roles/model.pt", "ranks/mine/model.pt", "ranks/7.1/2.0/x", "ranks/1.0", "rank"]
)
def test_a_result_below_a_folder_of_that_name_is_one(asked: CleanRules, name: str) -> None:
    _run(asked, "1", files=(name,))

    assert _told(asked) == {"run 1": f"it holds what the job wrote: {name} (--with-results)"}


def test_a_job_whose_later_link_runs_stays(asked: CleanRules) -> None:
    run = replace(_run(asked, "1"), links=20)
    register(asked.state, run)
    for job, text in (("4", "1\t4\n2\t6\n"), ("8", "1\t8_3\n2\t9\n")):
        other = replace(_run(asked, job), links=20)
        (other.directory / "task-3").mkdir()
        (other.directory / ("links" if job == "4" else "task-3/links")).write_text(text)
        register(asked.state, other)

    assert jobs_that_go_on(asked.state, "here", {"6", "9", "77"}) == {"4", "8"}
    assert jobs_that_go_on(asked.state, "there", {"6", "9"}) == frozenset()


def test_another_clusters_jobs_cannot_be_asked_for_from_here(asked: CleanRules) -> None:
    _run(asked, "1", cluster="there")

    assert all("--other-clusters" in (kept or "") for kept in _told(asked).values())
    assert set(_told(replace(asked, other_clusters=True)).values()) == {None}


def test_an_entry_whose_directory_is_gone_goes_and_a_file_system_that_is_away_is_no_proof(asked: CleanRules) -> None:
    made = _run(asked, "1")
    away = replace(made, job="2", directory=Path("/nowhere/muster-runs/2"))
    register(asked.state, away)
    remove_leftover(next(iter(find_leftovers(asked))), asked.state)
    register(asked.state, made)

    assert _told(asked) == {"entry 1": None, "entry 2": "/nowhere/muster-runs is not to be seen from here"}


def test_secrets_that_no_job_reads_any_more_go_at_once(asked: CleanRules) -> None:
    made = _run(asked, "1", days=1, files=("passed", "task-0/passed"))

    assert _told(asked) == {"secret passed": None}
    remove_passed(made)
    assert _told(asked) == {}


def test_rank_libraries_that_lead_nowhere_go_and_those_in_use_stay(asked: CleanRules) -> None:
    (asked.package).mkdir()
    for name, target in (("gone", "/nowhere"), ("mine", str(asked.package)), ("other", str(asked.state.parent.parent))):
        (asked.libraries / name).mkdir(parents=True)
        (asked.libraries / name / "muster").symlink_to(target)
        os.utime(asked.libraries / name, (0, 0))

    assert _told(replace(asked, living={"9"})) == {"rank library gone": None}
    assert _told(asked) == {"rank library gone": None, "rank library other": None}
    # Where nobody tells which jobs live, one of them may use it.
    unknown = replace(asked, living=None, cluster=None)
    assert _told(unknown) == {
        "rank library gone": None,
        "rank library other": "no Slurm tells from here whether a job uses it (--other-clusters)",
    }
    assert _told(replace(unknown, other_clusters=True)) == {"rank library gone": None, "rank library other": None}


def test_texts_that_a_waiting_job_reads_stay_and_so_do_those_of_this_version(asked: CleanRules) -> None:
    texts = asked.libraries.parent / "texts"
    for name in ("before", folder_name()):
        (texts / name).mkdir(parents=True)
        (texts / name / "watch.sh").write_text("text")
    (texts / "before/lost.sh").symlink_to("/nowhere")
    (texts / ".nfs0001").touch()
    (texts / "link").symlink_to(texts / "before")
    (texts / "broken").symlink_to("/nowhere")
    for name in ("before", folder_name(), ".nfs0001"):
        os.utime(texts / name, (time.time() - 40 * DAY_S,) * 2)

    assert _told(replace(asked, living={"9"})) == {}
    assert _told(asked) == {"texts before": None}
    assert _told(replace(asked, living=None)) == {
        "texts before": "no Slurm tells from here whether a job uses it (--other-clusters)"
    }
    other = _run(asked, "1", days=1, cluster="there")
    assert _told(asked)["texts before"] == "jobs on other clusters may read it (--other-clusters)"
    assert _told(replace(asked, other_clusters=True))["texts before"] is None
    forget(asked.state, other)
    # A launch has named them meanwhile.
    os.utime(texts / "before")
    assert _told(asked) == {}


def _clean(asked: CleanRules, *words: str) -> ProgramResult:
    home = asked.state.parent.parent
    environment = {**os.environ, "XDG_STATE_HOME": str(home / "state"), "XDG_DATA_HOME": str(home / "data")}
    return run_muster(["clean", *words], env={**environment, "PATH": "/nowhere"}, cwd=home)


def test_the_verb_lists_asks_and_removes(asked: CleanRules) -> None:
    made = _run(asked, "1")

    listed = _clean(asked, "--dry-run", "--other-clusters")
    assert (listed.status, made.directory.exists()) == (0, True)
    assert str(made.directory) in listed.stdout.replace("\n", "")
    told = json.loads(_clean(asked, "--json", "--other-clusters").stdout)
    assert [(each["kind"], each["job"], each["cluster"]) for each in told] == [("run", "1", made.cluster)]
    refused = _clean(asked, "--other-clusters")
    assert (refused.status, made.directory.exists()) == (2, True)
    assert "there is no terminal to ask for agreement" in refused.stderr
    assert _clean(asked, "--yes").status == 0
    assert made.directory.exists()  # of a cluster that is not asked
    done = _clean(asked, "--yes", "--other-clusters")
    assert (done.status, made.directory.exists()) == (0, False)
    assert "1 removed" in done.stderr


def test_a_run_directory_that_became_a_link_stays_with_what_it_leads_to(asked: CleanRules) -> None:
    made = _run(asked, "1", days=40)
    made.directory.rename(kept := made.directory.parent.with_name("kept"))
    made.directory.symlink_to(kept)
    done = _clean(asked, "--yes", "--other-clusters")
    assert (kept / "job.sh").exists()
    assert "could not be removed: Cannot call rmtree on a symbolic link" in done.stderr


def test_younger_ones_are_named_with_a_younger_age(asked: CleanRules) -> None:
    _run(asked, "1", days=2)

    assert '"kind": "run"' not in _clean(asked, "--json", "--other-clusters").stdout
    assert '"kind": "run"' in _clean(asked, "--json", "--older", "1d", "--other-clusters").stdout
    for typed in ("UNLIMITED", "1x"):
        assert f"'{typed}' is not an age" in _clean(asked, "--older", typed).stderr
