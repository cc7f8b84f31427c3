"""What is to be staged, as this host has it: every fact of a request, and which word of a command is the script."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS
from muster.facts import StagingFacts
from muster.job.options import parse, request_from
from muster.look.cluster import configuration_file
from muster.look.stage_facts import look_at_staging


def look(folder: Path, *words: str) -> StagingFacts | None:
    values, origins, command = parse([*words])
    facts = replace(FACTS, working_directory=str(folder), environment={})
    return look_at_staging(request_from({}, values, origins, command), facts).staging


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project, an environment made from a Python that lies beside it, data behind a link, and a script."""
    folder = tmp_path.resolve()
    for name in ("own/lib/python3.11/site-packages", "own/lib/python3.11/test", "own/bin", "project/src", "disk/set"):
        (folder / name).mkdir(parents=True)
    for name in ("project/env/bin", "project/env/lib/python3.11/site-packages", "project/env/envs"):
        (folder / name).mkdir(parents=True)
    (folder / "own/bin/python3.11").touch()
    (folder / "project/env/bin/python").symlink_to(folder / "own/bin/python3.11")
    (folder / "project/env/pyvenv.cfg").write_text("relocatable = true\n")
    (folder / "project/train.py").touch()
    (folder / "project/src/train.py").touch()
    (folder / "project/data").symlink_to(folder / "disk/set")
    return folder / "project"


def test_the_facts_of_an_environment_and_of_data_are_these(project: Path) -> None:
    own, env = project.parent / "own", project / "env"

    told = look(
        project, "--stage-env", "--venv", "env", "--stage", "data", "--stage", "none", "--", "python", "train.py"
    )

    assert told == StagingFacts(
        kinds={"data": "tree", "none": "missing", str(project): "tree"},
        real_paths={
            "data": str(project.parent / "disk/set"),
            "none": str(project / "none"),
            str(project): str(project),
        },
        environment=(str(env), str(own / "bin/python3.11"), str(own / "lib")),
        leave_out=(str(env / "envs"), f"{own}/lib/python3.11/site-packages", f"{own}/lib/python3.11/test"),
        relocatable=True,
        signs=(str(env), str(env / "lib/python3.11/site-packages")),
        script=("train.py", str(project / "train.py")),
    )


@pytest.mark.parametrize(("python", "is_copied"), [("/usr/bin/env", False), ("bin/python3", False), ("../x", True)])
def test_a_python_of_the_system_or_of_the_environment_is_not_copied_again(
    project: Path, python: str, is_copied: bool
) -> None:
    (project / "env/bin/python").unlink()
    program = Path(python) if python[0] == "/" else (project / "env" / python).resolve()
    if python[0] != "/":
        program.touch()
    (project / "env/bin/python").symlink_to(program)

    told = look(project, "--stage-env", "--venv", "env", "--", "python", "train.py")

    assert told is not None
    assert told.environment[1:] == ((str(program), str(program.parent.parent / "lib")) if is_copied else ())


def test_packages_of_the_pythons_own_are_kept_where_the_environment_reads_them(project: Path) -> None:
    (project / "env/pyvenv.cfg").write_text("include-system-site-packages = true\n")

    told = look(project, "--stage-env", "--venv", "env", "--", "python", "train.py")

    assert told is not None
    assert (told.leave_out, told.relocatable) == ((str(project / "env/envs"),), False)


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ("python train.py", "train.py"),
        ("./train.py", "train.py"),
        ("python -u train.py other.py", "train.py"),
        ("python none.py train.py", None),
        ("python -m train.py", None),
        ("python -c train.py", None),
        ("bash train.py", None),
        ("--chdir=src python train.py", "src/train.py"),
    ],
)
def test_the_script_is_the_word_that_python_runs(project: Path, words: str, script: str | None) -> None:
    told = look(project, "--stage-env", "--venv", "none", *words.split())

    assert told is not None
    assert (told.script[1] if told.script else None) == (str(project / script) if script else None)
    assert (told.environment, told.leave_out, told.signs, told.relocatable) == ((), (), (), False)


def test_without_a_word_of_staging_nothing_is_looked_at(project: Path) -> None:
    assert look(project, "--", "python", "train.py") is None


@pytest.mark.parametrize("place", ["etc/slurm.conf", "etc/slurm/slurm.conf"])
def test_a_slurm_of_its_own_folder_has_its_settings_beside_its_programs(tmp_path: Path, place: str) -> None:
    client, file = tmp_path / "bin/scontrol", tmp_path / place
    for path in (client, file):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    client.chmod(0o755)

    assert configuration_file({"PATH": str(client.parent)}) == file.resolve()
    assert configuration_file({"PATH": str(client.parent), "SLURM_CONF": "/x/slurm.conf"}) == Path("/x/slurm.conf")
