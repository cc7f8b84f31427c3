"""Modules in the script: a purge first, then the site's and the user's; what is gone is named with what is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launch.plans import plan
from muster.model.plan import Plan
from muster.render.script import job_script
from muster.runner import ProgramResult, run

# A module command as sites have it: it knows two versions, keeps a sticky one on purge, and lists on stderr.
MODULE = """\
#!/bin/sh
state=${0%/*}/loaded
case $1 in
purge) grep -s sticky "$state" >"$state.new"; mv "$state.new" "$state" ;;
load)
    case $2 in
    cuda/12.4 | cuda/12.6 | torch | sticky/1) echo "$2" >>"$state" ;;
    *) echo "unknown module $2" >&2 && exit 1 ;;
    esac
    ;;
use) [ -d "$2" ] ;;
--terse) printf '/apps/modules:\\ncuda/12.4\\ncuda/12.6(default)\\ncudatoolkit/1\\n' >&2 ;;
esac
"""


CHOICE = """\
name = "mine"
title = "a site with modules of changing names"
[modules]
load = ["%s"]
"""


def choosing(folder: Path, names: str) -> Plan:
    """A plan of a site that loads the first of these modules."""
    path = folder / "mine.toml"
    path.write_text(CHOICE % names)
    return plan("-N", "2", "--chdir", str(folder), "--", "python", "train.py", site=str(path))


@pytest.mark.parametrize(
    ("names", "loaded"),
    [
        ("cuda/12.8|cuda/12.6|cuda/12.4", "cuda/12.6"),
        ("cuda/12.4|cuda/12.6", "cuda/12.4"),
        ("cuda/11|cuda/12.4", "cuda/12.4"),
    ],
)
def test_the_first_module_that_is_there_is_loaded(names: str, loaded: str, tmp_path: Path) -> None:
    done, modules = execute(choosing(tmp_path, names), tmp_path)

    assert done.ok, done.stderr
    assert modules == [loaded]


def test_where_none_is_there_the_sentence_names_what_is(tmp_path: Path) -> None:
    done, _ = execute(choosing(tmp_path, "cuda/13|cuda/11"), tmp_path)

    assert not done.ok
    assert "module load cuda/13 or cuda/11 failed" in done.stderr
    assert "these versions exist: cuda/12.4 cuda/12.6" in done.stderr


def execute(made: Plan, folder: Path, *, loaded: str = "") -> tuple[ProgramResult, list[str]]:
    """Run the script with this module command: what was said, and what is loaded when the ranks start."""
    (folder / "module").write_text(MODULE)
    (folder / "loaded").write_text(loaded)
    (folder / "srun").write_text("#!/bin/sh\n")
    for name in ("module", "srun"):
        (folder / name).chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_SUBMIT_DIR": str(folder),
    }
    (folder / "job.sh").write_text(job_script(made))
    done = run(["bash", str(folder / "job.sh")], env=environment, cwd=folder)
    return done, (folder / "loaded").read_text().split()


def asked(folder: Path, *words: str) -> Plan:
    return plan("-N", "2", "--chdir", str(folder), *words, "--", "true")


def test_the_script_begins_with_a_purge_and_sticky_modules_stay(tmp_path: Path) -> None:
    done, loaded = execute(asked(tmp_path, "--module", "cuda/12.6"), tmp_path, loaded="gcc/13\nsticky/1\n")

    assert done.ok, done.stderr
    assert loaded == ["sticky/1", "cuda/12.6"]


@pytest.mark.parametrize("name", ["cuda/11.8", "cuda"])
def test_a_version_that_is_gone_is_named_with_those_that_are_there(tmp_path: Path, name: str) -> None:
    done, _ = execute(asked(tmp_path, "--module", name), tmp_path)

    assert done.status == 2
    assert f"muster: error: module load {name} failed" in done.stderr
    assert "hint: these versions exist: cuda/12.4 cuda/12.6(default)\n" in done.stderr


def test_a_module_of_which_there_is_no_version_is_said(tmp_path: Path) -> None:
    done, _ = execute(asked(tmp_path, "--module", "julia/1.9"), tmp_path)

    assert done.status == 2
    assert "hint: no module is called julia" in done.stderr


def test_a_name_that_a_shell_would_read_is_a_name(tmp_path: Path) -> None:
    done, _ = execute(asked(tmp_path, "--module", "$(touch canary)/1"), tmp_path)

    assert done.status == 2
    assert not (tmp_path / "canary").exists()


def test_more_directories_are_used_before_anything_is_loaded(tmp_path: Path) -> None:
    made = asked(tmp_path, "--module-use", str(tmp_path), "--module-use", "/", "--module", "torch")
    commands = [" ".join(map(str, each.shown)) for each in made.prelude if str(each.shown[0]) == "module"]

    done, loaded = execute(made, tmp_path)

    assert done.ok, done.stderr
    assert commands == ["module purge", f"module use {tmp_path}", "module use /", "module load torch"]
    assert loaded == ["torch"]


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    done, _ = execute(asked(tmp_path, "--module-use", "/not/there", "--module", "torch"), tmp_path)

    assert done.status == 2
    assert "module use /not/there failed" in done.stderr


def test_a_host_without_modules_is_said(tmp_path: Path) -> None:
    made = asked(tmp_path, "--module", "torch")
    (tmp_path / "job.sh").write_text(job_script(made).replace("/etc/profile", "/dev/null"))
    environment = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n1"}

    done = run(["bash", str(tmp_path / "job.sh")], env=environment, cwd=tmp_path)

    assert done.status == 2
    assert "module purge failed" in done.stderr or "this host has no modules" in done.stderr


@pytest.mark.parametrize(
    ("site", "module", "new"), [("supercloud", "cuda/10.1", "cuda/11.6"), ("lumi", "singularity-CPEbits", "bindings")]
)
def test_a_module_that_the_site_has_renamed_is_refused_before_the_job(site: str, module: str, new: str) -> None:
    from muster.errors import RequestError

    account = ("-A", "project_465000000") if site == "lumi" else ()
    with pytest.raises(RequestError, match=f"the module {module} is gone: .*{new}"):
        plan("-N", "2", *account, "-t", "30", "--module", module, "--", "true", site=site)
