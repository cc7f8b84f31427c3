"""One switch between image, virtual environment, conda and modules; and the Python that the ranks then really have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.errors import RequestError, UnknownName
from muster.facts import Facts
from muster.job.option import OriginKind, ValueOrigin
from muster.job.request import Request
from muster.look.conda import find_conda
from muster.plan.python_environment import chosen
from muster.render.parts import part
from muster.runner import ProgramResult, run
from plugins.forked import run_muster
from plugins.labs import Lab

FROM_FILE = ValueOrigin(OriginKind.SETTINGS, "muster.toml:1")

MUSTER = str(Path(sys.executable).with_name("muster"))
WHICH = "import os, sys; print(sys.prefix, os.environ.get('VIRTUAL_ENV') or os.environ.get('CONDA_PREFIX'))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a virtual environment, and a conda environment as far as a start looks at it."""
    return _project(tmp_path)


def _project(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    conda = folder / "envs" / "torch"
    for each in ("bin", "conda-meta", "etc/conda/activate.d"):
        (conda / each).mkdir(parents=True)
    (conda / "etc/conda/activate.d/here.sh").write_text("export SEEN_BY_CONDA=yes\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(conda)], check=True)
    return folder


def started(folder: Path, *words: str, settings: str = "") -> ProgramResult:
    (folder / "muster.toml").write_text(settings)
    environment = {
        name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"}
    }
    environment["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return run_muster(["run", "--here", "--quiet", *words, "--", "python", "-c", WHICH], cwd=folder, env=environment)


@pytest.mark.parametrize("kind", ["venv", "conda"])
def test_the_ranks_on_this_machine_have_the_environment_that_was_named(folder: Path, kind: str) -> None:
    there = folder / {"venv": "venv", "conda": "envs/torch"}[kind]
    done = started(folder, f"--{kind}", str(there))
    assert done.ok, done.stderr
    assert done.stdout.split() == [str(there), str(there)]


def test_a_settings_file_names_several_and_one_word_chooses(folder: Path) -> None:
    settings = f'venv = "{folder}/venv"\nconda = "{folder}/envs/torch"\nimage = "{folder}/x.sif"\n'
    assert started(folder, "--with", "venv", settings=settings).stdout.startswith(f"{folder}/venv ")
    assert started(folder, "--with", "conda", settings=settings).stdout.startswith(f"{folder}/envs/torch ")
    assert str(folder) not in started(folder, "--with", "modules", settings=settings).stdout


def test_what_is_typed_stands_before_what_a_file_says(folder: Path) -> None:
    done = started(folder, "--conda", f"{folder}/envs/torch", settings=f'venv = "{folder}/venv"\n')
    assert done.stdout.startswith(f"{folder}/envs/torch ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--venv", "nowhere"), "there is no Python in nowhere"),
        (("--conda", "./nowhere"), "there is no Python in"),
        (("--conda", "nowhere"), "there is no conda environment named 'nowhere'"),
        (("--with", "conda"), "--with conda, but no conda environment is named"),
        (("--with", "image"), "--with image, but no image is named"),
        (("--with", "spack"), "--with"),
        (("--venv", "venv", "--conda", "./envs/torch"), "are both named"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused_with_a_hint(folder: Path, words: tuple[str, ...], says: str) -> None:
    done = started(folder, *words)
    assert done.status == 2
    assert says in done.stderr
    assert "hint: " in done.stderr


def test_a_name_is_found_where_conda_keeps_environments(folder: Path) -> None:
    facts = Facts(environment={"CONDA_ENVS_PATH": f"/nowhere:{folder}/envs"}, home=str(folder))
    assert find_conda(Request(command=("true",), conda="torch"), facts).conda == str(folder / "envs/torch")
    (folder / ".conda").mkdir()
    (folder / ".conda/environments.txt").write_text(f"{folder}/envs/torch\n/gone\n")
    assert find_conda(Request(command=("true",), conda="torch"), Facts(home=str(folder))).conda == str(
        folder / "envs/torch"
    )
    with pytest.raises(UnknownName, match="torhc"):
        find_conda(Request(command=("true",), conda="torhc"), facts)


def test_both_from_files_need_a_word() -> None:
    with pytest.raises(RequestError, match="both named"):
        chosen(Request(command=("true",), venv="/a", conda="/b", origins={"venv": FROM_FILE, "conda": FROM_FILE}))


def test_the_shell_of_a_job_activates_it_as_conda_does(folder: Path) -> None:
    script = (
        f'{part("conda")}\nmuster_conda "$1" || exit 9\necho "$SEEN_BY_CONDA $CONDA_DEFAULT_ENV"; command -v python'
    )
    done = run(["bash", "-c", script, "x", str(folder / "envs/torch")])
    assert done.stdout.splitlines() == ["yes torch", f"{folder}/envs/torch/bin/python"]
    assert run(["bash", "-c", script, "x", str(folder)]).status == 9


@pytest.mark.lab
@pytest.mark.parametrize("kind", ["venv", "conda"])
def test_a_job_over_two_hosts_has_it(lab: Lab, shared_directory: Path, kind: str) -> None:
    folder = _project(shared_directory)
    there = folder / {"venv": "venv", "conda": "envs/torch"}[kind]
    words = [MUSTER, "run", "--quiet", "--no-label", "-N", "2", f"--{kind}", str(there)]
    done = lab.exec([*words, "--", "python", "-c", WHICH], cwd=folder)
    assert done.ok, done.stderr
    assert done.stdout.splitlines() == [f"{there} {there}"] * 2
