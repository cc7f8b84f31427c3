"""Muster installed in each way that people install programs, each in a clean place, on each Python that can be had.

Minutes, and packages from the network: before a release.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FETCHED = ("3.9", "3.13", "3.14")
# All that needs no cluster, no torch, and no tool of the project's own environment.
TESTS = ("job", "slurm", "sites", "unit", "launch", "launchers", "images", "lint", "port", "api", "cli")
NO_LAB = "not lab and not torch and not long and not versions and not gpu"
LEFT_OUT = ("tests/cli/test_demo.py",)

pytestmark = pytest.mark.long


def ask(*words: object, **environment: str) -> str:
    """Return what a program says; whatever it says stands in the failure."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what `make dist` makes."""
    folder = tmp_path_factory.mktemp("dist")
    ask(sys.executable, "scripts/make_dist.py", folder)
    return folder


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment that has pipx and uv."""
    folder = tmp_path_factory.mktemp("tools")
    ask(sys.executable, "-m", "venv", folder)
    ask(folder / "bin/pip", "install", "--quiet", "pipx", "uv")
    return folder / "bin"


@pytest.fixture(scope="module")
def pythons() -> Path:
    """Return the folder of the Pythons that were fetched."""
    if shutil.which("apt-get") is None or shutil.which("patchelf") is None:
        pytest.skip("other Pythons come from Debian's packages")
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "muster" / "pythons"


def fetched(version: str, folder: Path) -> str:
    """Return the path of this Python."""
    return ask(sys.executable, "scripts/fetch_python.py", version, folder).strip()


def works(*muster: object, **environment: str) -> None:
    """It runs a program, plans a job of a known site, reads bash, and its documents are there."""
    assert (
        ask(*muster, "run", "--ntasks-per-node=2", "--here", "--", "echo", "it runs", **environment).count("it runs")
        == 2
    )
    assert "[srun-survivors]" in ask(
        *muster, "lint", "--fail-on=breaks", ROOT / "tests/install/job.sbatch", **environment
    )
    ported = ask(
        *muster, "port", ROOT / "tests/install/job.sbatch", "--site=lumi", "-A", "project_465000000", **environment
    )
    assert "-N 2" in ported
    assert ask(*muster, "--version", **environment).startswith("muster ")
    plan = ask(
        *muster, "plan", "-N2", "--site=lumi", "-A", "project_465000000", "-t30", "--", "python", "x.py", **environment
    )
    assert "#SBATCH --nodes=2" in plan
    assert "first-job" in ask(*muster, "docs", **environment)


def told_of_the_server(*muster: object, status: int, **environment: str) -> str:
    """Return what the server for editors says where no editor speaks to it."""
    words = [*map(str, muster), "lint", "--server"]
    done = subprocess.run(
        words, env={**os.environ, **environment}, input="", capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stderr


def command_for_the_server(*muster: object, **environment: str) -> str:
    """Return the command that an installation without pygls names."""
    return told_of_the_server(*muster, status=2, **environment).partition("hint: ")[2].strip()


@pytest.mark.parametrize("source", ["folder", "wheel", "sdist"])
def test_pip(source: str, dist: Path, tmp_path: Path) -> None:
    ask(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    what = {"folder": ROOT, "wheel": next(dist.glob("*.whl")), "sdist": next(dist.glob("*.tar.gz"))}[source]
    ask(python, "-m", "pip", "install", "--quiet", what)
    works(tmp_path / "venv/bin/muster")
    ask(python, "-m", "pip", "uninstall", "--quiet", "--yes", "muster-hpc")
    assert list((tmp_path / "venv").rglob("*muster*")) == []


def test_pipx(tools: Path, dist: Path, tmp_path: Path) -> None:
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    ask(tools / "pipx", "install", next(dist.glob("*.whl")), **places)
    works(tmp_path / "bin/muster")
    assert command_for_the_server(tmp_path / "bin/muster") == "pipx inject muster-hpc pygls"
    ask(tools / "pipx", "inject", "muster-hpc", "pygls", **places)
    told_of_the_server(tmp_path / "bin/muster", status=0)
    ask(tools / "pipx", "uninstall", "muster-hpc", **places)
    assert not (tmp_path / "bin/muster").exists()


def test_uv_tool(tools: Path, dist: Path, tmp_path: Path) -> None:
    places = {"UV_TOOL_DIR": str(tmp_path / "uv"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    ask(tools / "uv", "tool", "install", next(dist.glob("*.whl")), "--python", sys.executable, **places)
    works(tmp_path / "bin/muster")
    uv, *words = shlex.split(command_for_the_server(tmp_path / "bin/muster"))
    ask(tools / uv, *words, **places)
    told_of_the_server(tmp_path / "bin/muster", status=0)
    ask(tools / "uv", "tool", "uninstall", "muster-hpc", **places)
    assert not (tmp_path / "bin/muster").exists()


@pytest.mark.parametrize("version", FETCHED)
def test_the_one_file(version: str, dist: Path, pythons: Path, tmp_path: Path) -> None:
    python = fetched(version, pythons)
    works(python, "-I", dist / "muster.pyz", XDG_DATA_HOME=str(tmp_path))
    hint = command_for_the_server(python, "-I", dist / "muster.pyz", XDG_DATA_HOME=str(tmp_path))
    assert hint.startswith(f"{python} -m pip install --target {tmp_path}/muster/one-file/")
    (spy,) = tmp_path.glob("muster/one-file/*/bin/py-spy")
    assert ask(spy, "--version").startswith("py-spy ")


@pytest.mark.parametrize("version", FETCHED)
def test_every_test_that_needs_no_lab_passes_on_another_python(version: str, pythons: Path, tmp_path: Path) -> None:
    python = environment_of(fetched(version, pythons), tmp_path)
    words = ["-q", "-p", "no:cacheprovider", "-m", NO_LAB, *(f"--ignore={each}" for each in LEFT_OUT)]
    said = ask(python, "-m", "pytest", *words, *(f"tests/{folder}" for folder in TESTS))
    assert " passed" in said


def environment_of(python: str, folder: Path) -> Path:
    """Return the Python of a new environment that has Muster and what its tests need."""
    ask(python, "-m", "venv", "--without-pip", folder / "venv")
    ask(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "pip<26")
    own, pip = folder / "venv/bin/python", next(folder.glob("pip-*.whl")) / "pip"
    ask(own, pip, "install", "--quiet", "--editable", ROOT, "pytest", "hypothesis", "pygls")
    return own
