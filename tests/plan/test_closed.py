"""Guards what a closed job is in the plan: the door in the script, its secret in no word, and where it is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.errors import RequestError
from muster.launchers import launcher_named
from muster.launchers.base import DOOR_PIECES, RANK
from muster.model.plan import Plan
from muster.model.words import Fragment
from muster.render.explain import explain
from muster.render.folder import read_words, texts_of_folder
from muster.render.image import step_words
from muster.render.own_text import prologue_text
from muster.render.parts import compose, kept, part
from muster.render.script import job_script
from muster.runner import run


def who_may_join(made: Plan) -> str:
    return next(text for _, text, reason in explain(made) if "store" in reason.text)


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_the_secret_stands_in_no_word_of_a_command(launcher: str) -> None:
    script = job_script(plan("-N", "2", "--closed", "--launcher", launcher, "--", "python", "train.py"))

    job = script[: script.index("# ----")]
    assert "muster_make_door_key" in job
    assert "MUSTER_DOOR_KEY" not in job
    # It is exported by the function, read by the door, unset before the ranks: never an argument.
    lines = [line.strip() for line in script.splitlines() if "MUSTER_DOOR_KEY" in line]
    assert [line for line in lines if re.search(r"exec|srun|\$@|echo|printf", line)] == []


def test_a_job_that_is_not_closed_has_no_door_and_says_who_may_join() -> None:
    open_plan, closed_plan = (
        plan(*words, "--", "python", "train.py") for words in (("-N", "2"), ("-N", "2", "--closed"))
    )

    assert "door" not in job_script(open_plan)
    assert who_may_join(open_plan) == "every process that reaches that port can join"
    assert who_may_join(closed_plan) == "only your processes on the job's nodes reach the store"


def test_where_it_cannot_be_kept_it_is_refused() -> None:
    with pytest.raises(RequestError, match="which ibrun cannot carry to other hosts"):
        plan("-N", "2", "--closed", "--launcher", "ibrun", "--", "python", "train.py")


@pytest.mark.parametrize("engine", ["apptainer", "podman"])
@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun"])
def test_the_door_stands_outside_of_an_image(launcher: str, engine: str) -> None:
    words = ("--image", "docker://a/b:1", "--engine", engine, "--launcher", launcher)
    made = replace(plan("-N", "2", "--closed", *words, "--", "python", "train.py"), texts=None)

    step = step_words(made)
    assert step.index(Fragment('"$muster_door"')) < step.index(engine)
    (rank,) = (each for each in launcher_named(launcher).prologues(made) if each.variable == RANK)
    text = " ".join(prologue_text(made, rank).replace("\\\n", " ").split())
    # What the image gets follows the door, and the secret is not among it.
    assert text.index("unset MUSTER_DOOR_KEY") < text.index("TORCHELASTIC_USE_AGENT_STORE TORCH_DISABLE")


@pytest.mark.parametrize("found", ["", "old", "old new"])
def test_a_host_without_a_python_of_3_6_says_so_and_an_older_one_is_passed_over(tmp_path: Path, found: str) -> None:
    old = "#!/bin/sh\ncase $* in -V) echo Python 3.4.10 ;; *version_info*) exit 1 ;; esac\n"
    for folder, text in zip(found.split(), (old, '#!/bin/sh\necho "$@"\n'), strict=False):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "python3").write_text(text)
        (tmp_path / folder / "python3").chmod(0o755)
    text = part("stop") + part("python") + part("door").replace("/usr/bin", f"{tmp_path}/old") + "\nwait"
    words = (
        f"PATH={tmp_path}/new:{tmp_path}/old; muster_local_rank=0 muster_rank=0 muster_port=1 muster_nodes=2; {text}"
    )
    said = run(["/bin/sh", "-c", words, "sh", "the door's text"])
    its = ": its python3 is Python 3.4.10" if found else ""
    lacks = f" has no Python 3.6 or later, by which the door of a closed job runs{its}\n\nhint: omit"
    assert ("-I -S -c the door's text store 1" if "new" in found else lacks) in said.stdout + said.stderr


def test_a_python_whose_name_tells_its_version_is_not_asked(tmp_path: Path) -> None:
    for name, says in (("python3.5", "too old"), ("python3.10", '"${RANK-no rank}" "$@"'), ("python3", "asked")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {says}\n")
        (tmp_path / name).chmod(0o755)
    text = part("stop") + part("python") + part("door").replace("/usr/bin", f"{tmp_path}") + "\nwait"
    words = f"muster_local_rank=0 muster_rank=1 muster_port=1 muster_nodes=2 muster_address=n0; {text}"
    words = words.replace("exec >/dev/null 2>&1", "")
    said = run(["/bin/sh", "-c", words, "sh", "the door's text"], env={"PATH": f"{tmp_path}", "RANK": "1"})
    # Who looks for the ranks of the job (nodes/processes.sh) does not find the door.
    assert said.stdout.split()[:-3] == ["no", "rank", "-I", "-S", "-c", "the", "door's", "text", "node"], said


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("apptainer", ""),
        ("podman", ""),
        ("shifter", "shifter"),
        ("pyxis", "pyxis: its image has to hold Python 3.6 or later"),
    ],
)
def test_an_engine_with_which_nobody_tried_it_is_named(engine: str, says: str) -> None:
    words = ("-N", "2", "--image", "docker://a/b:1", "--engine", engine)
    notes = [note.text for note in plan(*words, "--closed", "--", "python", "train.py").notes if "tried" in note.text]
    assert notes == ([f"--closed was not tried with {says}"] if says else [])
    assert not any("tried" in note.text for note in plan(*words, "--", "python", "train.py").notes)


@pytest.mark.parametrize(("door", "status"), [("# muster_read door.py", 2), ("its text", 0)])
def test_a_job_that_cannot_read_its_door_stops_before_its_ranks(door: str, status: int) -> None:
    text = part("stop") + part("door_key") + "\nmuster_make_door_key; printf %s ${#MUSTER_DOOR_KEY}"
    said = run(["/bin/bash", "-c", text], env={"muster_door": door, "PATH": "/nowhere"})
    assert (said.status, said.stdout) == (status, "" if status else "64")
    assert ("this job would not be closed" in said.stderr) == bool(status)


def test_the_door_is_read_whole(tmp_path: Path) -> None:
    """The last of its texts was left out of account: a line that ends the value ends in no line break."""
    for name, text in texts_of_folder().items():
        (tmp_path / name).write_text(text)
    made = replace(plan("-N", "2", "--closed", "--", "python", "train.py"), texts=str(tmp_path))
    (door,) = (each for each in launcher_named("srun").prologues(made) if each.variable == "muster_door")
    held = prologue_text(made, door)
    words = " ".join(read_words("muster_door", held))
    text = f'{part("read")}\n{kept("muster_door", held)}\nmuster_read {tmp_path} {words}\nprintf %s "$muster_door"'
    said = run(["bash", "-c", text])
    assert said.stdout.replace("# end", "").split() == compose(DOOR_PIECES).split(), said.stderr
