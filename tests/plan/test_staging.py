"""What is staged, under which name, and what is refused before a job waits for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import RequestError
from muster.facts import Facts, ImageFacts, StagingFacts
from muster.job.options import parse, request_from
from muster.look.stage_facts import look_at_staging
from muster.model.plan import Engine, Plan
from muster.model.words import Fragment
from muster.plan.staging import _packed
from muster.render.explain import plan_as_text
from muster.render.script import job_script


def planned(directory: Path, *words: str, engine: Engine | None = None, **more: object) -> Plan:
    """The plan of a request typed in `directory`, with what this host shows of its paths."""
    values, origins, command = parse(words)
    request = request_from({}, values, origins, command)
    facts: Facts = replace(FACTS, working_directory=str(directory), home=str(directory), **more)
    return plan(*words, facts=look_at_staging(request, facts), engine=engine)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    here = tmp_path.resolve() / "project"
    (here / "env/bin").mkdir(parents=True)
    (here / "env/lib/python3.11/site-packages").mkdir(parents=True)
    base = here.parent / "apps/python"
    (base / "bin").mkdir(parents=True)
    (base / "lib/python3.11/site-packages").mkdir(parents=True)
    (base / "bin/python3.11").touch()
    (here / "env/bin/python").symlink_to(base / "bin/python3.11")
    (here / "env/pyvenv.cfg").write_text(f"home = {base}/bin\ninclude-system-site-packages = false\n")
    (here / "train.py").touch()
    (here / "data").mkdir()
    return here


def test_nothing_asked_for_is_nothing_in_the_plan(project: Path) -> None:
    made = planned(project, "--", "python", "train.py")
    assert made.staging is None
    assert "muster_stage" not in job_script(made)


def test_an_environment_brings_its_python_and_the_scripts_folder(project: Path) -> None:
    made = planned(project, "--venv", "env", "--stage-env", "--", "python", "train.py")
    assert made.staging is not None
    (thing,) = made.staging.things
    apps = project.parent / "apps/python"
    assert thing.paths == (str(project / "env"), str(apps / "bin/python3.11"), str(apps / "lib"))
    assert thing.leave_out == (str(apps / "lib/python3.11/site-packages"),)
    assert thing.packed.startswith(f"{project}/muster-runs/stage/env-")
    assert made.staging.script == ("train.py", str(project / "train.py"))
    assert made.staging.word is None
    told = plan_as_text(made)
    assert "importing torch from the shared file system: 1 ranks × 20,000 operations = 20,000" in told
    assert "is unknown, so no time is computed" in told


def test_a_python_of_the_system_is_every_nodes_own(project: Path) -> None:
    (project / "env/bin/python").unlink()
    (project / "env/bin/python").symlink_to("/usr/bin/env")
    made = planned(project, "--venv", "env", "--stage-env", "--", "python", "-m", "train")
    assert made.staging is not None
    assert made.staging.things[0].paths == (str(project / "env"),)
    assert made.staging.script is None


def test_a_relocatable_environment_says_so(project: Path) -> None:
    with (project / "env/pyvenv.cfg").open("a") as file:
        file.write("relocatable = true\n")
    made = planned(project, "--venv", "env", "--stage-env", "--", "python", "train.py")
    assert "muster_stage_closed relocatable=yes" in job_script(made)


def test_a_job_that_runs_from_a_copy_of_the_project_starts_the_script_of_that_copy(project: Path) -> None:
    words = ("--venv", "env", "--stage-env", "--snapshot", "--", "python", "train.py")
    assert 'muster_stage_script name=train.py file="$PWD"/train.py' in job_script(planned(project, *words))


def test_links_are_followed_and_a_path_twice_is_one(project: Path) -> None:
    (project / "link").symlink_to("data")
    made = planned(project, "--stage", "link", "--stage", "link", "--stage-out", "~/out", "--", "x")
    assert made.staging is not None
    assert [each.paths for each in made.staging.things] == [(str(project / "data"),)]
    assert made.staging.out == str(project / "out")


def test_the_nodes_own_disk_is_the_sites(project: Path) -> None:
    values, origins, command = parse(["--stage", "data", "--", "x"])
    facts = look_at_staging(request_from({}, values, origins, command), replace(FACTS, working_directory=str(project)))
    made = plan("-A", "x", "-t", "10", "--stage", "data", "--", "x", site="frontier", facts=facts)
    assert made.staging is not None
    assert made.staging.folder == Fragment('"/mnt/bb/$USER"')


@pytest.mark.parametrize(
    ("venv", "nodes", "seconds"),
    [
        ("/ccs/home/ada/env", 8, 237),
        ("/lustre/orion/x/env", 8, None),
        ("/lustre/orion/x/env", 100, 640),
        ("/opt/env", 99, None),
    ],
)
def test_staging_is_proposed_where_the_file_systems_rate_is_known_and_it_pays(
    venv: str, nodes: int, seconds: int | None
) -> None:
    words = ("-A", "x", "-t", "10", "-N", str(nodes), "--venv", venv)
    made = plan(*words, "--", "python", "train.py", site="frontier")
    told = [note.text for note in made.notes if "--stage-env" in note.text]
    assert [f"about {seconds} s here" in text for text in told] == ([True] if seconds else [])
    staged = Facts(staging=StagingFacts(environment=(venv,)))
    asked = plan(*words, "--stage-env", "--", "python", "train.py", site="frontier", facts=staged)
    assert asked.staging is not None
    text, reason = asked.staging.advice[1]
    assert f"importing torch from orion would take {nodes * 8 * 20_000 / 25_000:.0f} s" in text
    assert reason.source is not None
    assert "sbcast_conda" in reason.source


def test_an_image_is_its_file_and_sees_copies_by_binds(project: Path) -> None:
    (project / "x.sif").touch()
    image = ImageFacts(kind="sif", package="/opt/muster")
    words = ("--image", str(project / "x.sif"), "--stage-env", "--stage", "data", "--", "python", "train.py")
    script = job_script(planned(project, *words, image=image))
    assert f"muster_stage_image name={project}/x.sif file={project}/x.sif" in script.replace(" \\\n" + 12 * " ", " ")
    assert "muster_stage_bind APPTAINER_BIND" in script
    assert "muster_stage_mount ||" not in script


def test_an_image_is_not_asked_to_bind_what_its_engine_would_split(project: Path) -> None:
    (project / "a,b").mkdir()
    (project / "x.sif").touch()
    words = ("--image", str(project / "x.sif"), "--stage", "a,b", "--", "x")
    with pytest.raises(RequestError, match="holds a colon or a comma"):
        planned(project, *words, image=ImageFacts(kind="sif"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--stage", "none"], "--stage none: there is no such folder or file"),
        (["--stage", "."], "contains the working directory"),
        (["--stage", ".."], "contains the working directory"),
        (["--stage-out", ".."], "contains the working directory"),
        (["--stage", "data", "--stage-out", "data/out"], "lies in --stage data, which is packed as it is now"),
        (["--stage-out", "train.py"], "--stage-out train.py is a file"),
        (["--stage-env", "--venv", "none"], "but they have none of their own"),
        (["--stage-env", "--venv", "not-there"], "there is no folder not-there"),
        (["--image", "docker://x", "--engine", "pyxis", "--stage", "data"], "pyxis cannot be told of them there"),
        (["--image", "docker://x", "--engine", "apptainer", "--stage-env"], "is not a file or folder on this host"),
    ],
)
def test_what_cannot_be_is_refused_before_it_waits(project: Path, words: list[str], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence.replace(".", r"\.")) as caught:
        planned(project, *words, "--", "python", "train.py")
    assert caught.value.hint


def test_without_slurm_there_is_nothing_to_bring(project: Path) -> None:
    made = planned(project, "--stage", "data", "--", "x", engine=Engine.HERE)
    assert made.staging is None
    assert any("--stage: without Slurm nothing is copied" in note.text for note in made.notes)


def test_a_folder_for_results_that_holds_something_is_said_to_look_empty(project: Path) -> None:
    made = planned(project, "--stage-out", "data", "--", "x")
    assert any("the ranks see an empty folder at the start" in note.text for note in made.notes)


def test_planning_with_staging_starts_no_process(project: Path) -> None:
    events: list[str] = []
    watching = True

    def hook(name: str, _: object) -> None:
        if watching and name in {"subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.system"}:
            events.append(name)

    sys.addaudithook(hook)
    planned(project, "--venv", "env", "--stage-env", "--stage", "data", "--", "python", "train.py")
    watching = False
    assert events == []


def test_a_path_that_is_no_text_has_a_folder_for_its_copy() -> None:
    assert _packed("/w", "/data/set\udcff").startswith("/w/muster-runs/stage/set\udcff-")
