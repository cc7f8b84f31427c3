"""Installs a real wheel of somebody else with a verb, launcher, engine, lint rule and site, and uses each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.wide  # a whole installation

MUSTER = Path(sys.executable).with_name("muster")
EXAMPLE = Path(__file__).parent / "example"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the example's wheel was installed into."""
    work = tmp_path_factory.mktemp("of-others")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(work)]
    subprocess.run(build, cwd=EXAMPLE, check=True, capture_output=True)
    (wheel,) = work.glob("*.whl")
    folder = work / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(folder), str(wheel)], check=True)
    return folder


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Return `muster` in an environment that has the example's package."""

    def muster(*words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        if path is not None:
            environment["PATH"] = f"{path}:{environment['PATH']}"
        return subprocess.run(
            [MUSTER, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return muster


def test_a_verb(run: Run) -> None:
    assert run("hello", "world").stdout == "hello, world\n"
    assert "usage: muster hello" in run("hello", "--help").stdout
    assert "of the package muster-example" in run("--help").stdout


def test_a_program_on_path_is_a_verb(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "muster-shout"
    program.write_text('#!/bin/sh\necho "HELLO $*"\nexit 3\n')
    program.chmod(0o755)
    done = run("shout", "a b", "--help", path=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "HELLO a b --help\n")


def test_a_launcher_typed_and_preferred_by_a_site(run: Run) -> None:
    typed = run("plan", "--launcher", "relay", "-N", "2", "--", "hostname")
    assert typed.returncode == 0, typed.stderr
    assert "env srun" in typed.stdout.replace(" \\\n", " ")
    preferred = run("plan", "--site", "attic", "-N", "2", "-t", "10", "--", "hostname")
    assert "env srun" in preferred.stdout.replace(" \\\n", " "), preferred.stderr


def test_a_launcher_that_nobody_brings_is_refused(run: Run) -> None:
    done = run("plan", "--launcher", "relais", "--", "hostname")
    assert done.returncode == 2
    assert "relais" in done.stderr


def test_an_engine(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tree/bin").mkdir(parents=True)
    (tmp_path / "tree/bin/sh").symlink_to("/bin/sh")
    done = run("plan", "--engine", "crate", "--image", "tree", "--", "hostname")
    assert done.returncode == 0, done.stderr
    assert f"crate {tmp_path}/tree" in done.stdout.replace(" \\\n", " ").replace("    ", "")


def test_a_lint_rule(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --job-name=hurry\nsrun --kill-on-bad-exit=1 hostname\n")
    assert "no-hurry" in run("lint", "--select", "no-hurry", "job.sh").stdout
    assert "no-hurry" in run("lint", "--rules").stdout


def test_a_site(run: Run) -> None:
    assert "The attic" in run("site", "show", "attic").stdout


def test_nothing_of_others_is_searched_where_every_name_is_musters(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", MUSTER, "plan", "-N", "2", "--", "hostname"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "importlib.metadata" not in done.stderr


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Return a folder with an installed package whose module cannot be imported."""
    folder = tmp_path / "broken"
    record = folder / "bad_pkg-1.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-pkg\nVersion: 1\n")
    groups = {"verbs": "broke", "launchers": "bad", "engines": "crate2", "lint_rules": "bad", "sites": "attic2"}
    text = "".join(f"[muster.{group}]\n{name} = badpkg:X\n" for group, name in groups.items())
    (record / "entry_points.txt").write_text(text.replace("broke = badpkg:X", "broke = badpkg"))
    (folder / "badpkg.py").write_text("import nosuchmodule\n")
    (folder / "job.sh").write_text("#!/bin/bash\n#SBATCH -N2\nsrun true\n")
    return folder


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["broke"], "broke"),
        (["run", "--here", "--launcher", "bad", "--", "true"], "bad"),
        (["plan", "--site", "attic2", "--", "true"], "attic2"),
    ],
)
def test_a_part_that_cannot_be_loaded_is_its_package_s_fault(broken: Path, words: list[str], part: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(broken)}
    done = subprocess.run([MUSTER, *words], env=environment, cwd=broken, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said = (
        f"{part}, a part of the package bad-pkg, cannot be loaded: ModuleNotFoundError: No module named 'nosuchmodule'"
    )
    assert said in done.stderr
    assert "hint: repair that package, or remove it: pip uninstall bad-pkg" in done.stderr


def test_a_part_that_two_packages_bring_is_neither_s(broken: Path) -> None:
    """The last one won, and nobody was told."""
    other = broken / "other_pkg-1.dist-info"
    shutil.copytree(broken / "bad_pkg-1.dist-info", other)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other-pkg\nVersion: 1\n")
    environment = {**os.environ, "PYTHONPATH": str(broken)}
    for words in (["broke"], ["run", "--here", "--launcher", "bad", "--", "true"]):
        done = subprocess.run(
            [MUSTER, *words], env=environment, cwd=broken, capture_output=True, text=True, check=False
        )
        name = words[0] if words == ["broke"] else "bad"
        assert done.returncode == 2
        assert f"the packages bad-pkg and other-pkg both bring {name}: which is meant is not known" in done.stderr


def test_rules_that_cannot_be_loaded_do_not_keep_the_others_from_looking(broken: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(broken)}
    argv = [str(MUSTER), "lint", "--select=style", "job.sh"]
    done = subprocess.run(argv, env=environment, cwd=broken, capture_output=True, text=True, check=False)
    assert "muster: warning: its rules do not look: bad, a part of the package bad-pkg, cannot be loaded" in done.stderr
    assert "--time" in done.stdout
