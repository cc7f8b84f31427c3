"""Guards --snapshot: the job runs the project as it was when it was submitted, from a copy that is whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.act.snapshot import copy_project
from muster.errors import RequestError
from muster.facts import Facts
from muster.job.options import parse, request_from
from muster.model.plan import Plan
from muster.plan.build import make_plan
from muster.render.script import job_script
from muster.runner import checked
from muster.sites.load import load
from plugins.labs import MUSTER, Lab


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)


@pytest.fixture
def project(shared_directory: Path) -> Path:
    """A work tree with tracked, changed, new, removed and ignored files, a link and a folder to stand in."""
    top = shared_directory / "project"
    (top / "sub dir").mkdir(parents=True)
    git(top, "init", "--quiet")
    for name in ("tracked", "changed", "removed", "sub dir/train.sh"):
        (top / name).write_text("committed")
    (top / ".gitignore").write_text("*.ckpt\n")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "--message=all")
    (top / "changed").write_text("edited")
    (top / "removed").unlink()
    (top / "new\nname").write_text("new")
    (top / "link").symlink_to("tracked")
    (top / "big.ckpt").write_text("ignored")
    (top / "muster-runs" / "old").mkdir(parents=True)
    (top / "muster-runs" / "old" / "job.sh").write_text("an earlier run")
    (top / "sub dir" / "train.sh").chmod(0o755)
    return top


def test_the_copy_is_what_git_does_not_ignore_as_it_is_now(project: Path, tmp_path: Path) -> None:
    copy_project(str(project / "sub dir"), tmp_path)

    copied = sorted(str(path.relative_to(tmp_path / "snapshot")) for path in (tmp_path / "snapshot").rglob("*"))
    assert copied == [".gitignore", "changed", "link", "new\nname", "sub dir", "sub dir/train.sh", "tracked"]
    assert (tmp_path / "snapshot" / "changed").read_text() == "edited"
    assert (tmp_path / "snapshot" / "link").readlink() == Path("tracked")
    assert (tmp_path / "here" / "train.sh").stat().st_mode & 0o111
    assert not (tmp_path / "here").readlink().is_absolute(), "the run directory may get another name"


def test_a_link_that_leads_nowhere_yet_is_copied_as_it_is(project: Path, tmp_path: Path) -> None:
    (project / "data").symlink_to("/a/disk/of/the/node")

    copy_project(str(project), tmp_path)

    assert (tmp_path / "snapshot" / "data").readlink() == Path("/a/disk/of/the/node")


def test_a_folder_that_git_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="not in a work tree of git") as caught:
        copy_project(str(tmp_path), tmp_path / "run")

    assert "git init" in (caught.value.hint or "")


def planned(*, stream: bool = False) -> Plan:
    values, origins, command = parse(["--site", "generic", "--snapshot", "--", "true"])
    return make_plan(
        request_from({}, values, origins, command), load("generic"), Facts(), typed=("true",), stream=stream
    )


def test_a_queued_script_goes_to_the_copy_and_a_run_stays_where_it_is() -> None:
    queued, run_now = planned(), planned(stream=True)

    assert "    muster_begin dir=here " in job_script(queued)
    assert 'cd -P "$muster_run_dir/$1"' in job_script(queued)
    assert "cd -P" not in job_script(run_now)
    assert any("starts now" in note.text for note in run_now.notes)


@pytest.mark.lab
def test_a_job_runs_what_was_submitted_though_the_file_was_edited_since(lab: Lab, project: Path) -> None:
    script = project / "sub dir" / "train.sh"
    script.write_text("#!/bin/sh\necho first\n")
    environment = {"PATH": path_with()}
    words = ["submit", "--quiet", "--snapshot", "--sbatch=--hold", "-N", "1", "--", "./train.sh"]
    job = checked(lab.exec([str(MUSTER), *words], cwd=script.parent, env=environment)).stdout.strip()
    script.write_text("#!/bin/sh\necho second\n")

    checked(lab.exec(["scontrol", "release", job]))
    checked(lab.exec(["srun", "-N1", "-n1", f"--dependency=afterany:{job}", "true"]))

    logs = checked(lab.exec([str(MUSTER), "logs", job], cwd=script.parent, env=environment)).stdout
    assert "first" in logs
    assert "second" not in logs
