"""A ~ that no shell has put the home directory in the place of: in a settings file, in quotes, behind =."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.plans import plan
from muster.errors import RequestError
from muster.job.home import PATHS, at_home
from muster.job.options import parse, request_from
from muster.job.request import Request, options_of
from muster.rank.contract import LAB_FOLDERS
from muster.render.script import job_script
from plugins.forked import run_muster


def _request(*words: str) -> Request:
    values, origins, command = parse([*words, "--", "python", "train.py"])
    return at_home(request_from({}, values, origins, command), "/home/ada")


@pytest.mark.parametrize("field", [field for field in PATHS if field != "sweep"])
def test_each_option_that_names_a_path_knows_the_home(field: str) -> None:
    flag = options_of()[field].flags[-1]

    value = getattr(_request(f"{flag}=~/there"), field)

    assert "/home/ada/there" in ([str(each) for each in value] if isinstance(value, tuple) else [str(value)])


def test_every_option_that_names_a_path_is_one_of_them() -> None:
    named = {name for name, each in options_of().items() if each.metavar in {"DIR", "FILE", "DATA", "IMAGE"}}

    assert named <= set(PATHS)


@pytest.mark.parametrize("words", [["--venv", "~bob/env"], ["--bind", "~bob/data:/data"], ["--image", "~bob/x.sif"]])
def test_the_home_of_somebody_else_is_refused(words: list[str]) -> None:
    with pytest.raises(RequestError, match="only a shell knows"):
        _request(*words)


@pytest.mark.parametrize("name", ["env", "/opt/~env", "a~b", "docker://~/x"])
def test_other_names_stay(name: str) -> None:
    flag = "--image" if "://" in name else "--venv"

    assert str(getattr(_request(flag, name), flag[2:])) == name


def test_the_script_activates_the_folder_in_the_home() -> None:
    made = job_script(plan("-N", "2", "--venv=~/env", "--", "python", "train.py"))

    assert ". /home/ada/env/bin/activate" in made
    assert "~" not in made.partition("# ---")[0].partition("job() {")[2]


def test_a_settings_file_may_name_the_home(tmp_path: Path) -> None:
    (tmp_path / "muster.toml").write_text('venv = "~/env"\n')
    home = tmp_path / "home"
    (home / "env/bin").mkdir(parents=True)

    done = run_muster(
        ["plan", "--site", "generic", "-N", "2", "--as", "script", "--", "python", "t.py"],
        cwd=tmp_path,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
    )

    assert f". {home}/env/bin/activate" in done.stdout, done.stderr


def _submit(folder: Path, *words: str) -> tuple[int, str]:
    (folder / "t.py").write_text("print(1)\n")
    done = run_muster(
        ["submit", "--site", "generic", "-N", "2", *words, "--", "python", "t.py"],
        cwd=folder,
        # As in a lab: the folder may lie in /var/tmp, which nodes of other clusters have of their own.
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin", LAB_FOLDERS: str(folder)},
    )
    return done.status, done.stderr


@pytest.mark.parametrize("name", ["~/nothing", "nothing", "a/nothing"])
def test_submit_refuses_an_environment_that_is_not_there(name: str, scratch: Path) -> None:
    (scratch / "a").mkdir(exist_ok=True)

    status, said = _submit(scratch, f"--venv={name}")

    assert status == 2
    assert "there is no virtual environment in" in said


def test_submit_takes_an_environment_of_a_place_that_this_host_does_not_see(scratch: Path) -> None:
    _, said = _submit(scratch, "--venv=/nowhere/here/env")

    assert "there is no virtual environment" not in said
