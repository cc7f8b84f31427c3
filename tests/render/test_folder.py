"""What a script reads from Muster's folder is what it would hold itself; it reads only what is its user's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import JOB_FACTS, plan
from muster.act.kept_cluster import KnownCluster
from muster.act.prepare import plan_for
from muster.act.texts import place_texts
from muster.facts import Facts, ImageFacts
from muster.job.options import parse, request_from
from muster.model.plan import Plan
from muster.model.words import WIDTH
from muster.render.folder import folder_name, texts_of_folder
from muster.render.own_text import own_text
from muster.render.parts import part, part_files
from muster.render.script import job_part
from muster.runner import run
from slurm.clusters import cluster, kind_line, partition_line

_IMAGE = ImageFacts(kind="sif", project="/home/ada", package="/opt/venv/muster")


def _placed(home: Path) -> str | None:
    (home / "bin").mkdir(exist_ok=True)
    if not (home / "bin/scontrol").exists():
        (home / "bin/scontrol").symlink_to("/bin/true")
    return place_texts(Facts(home=str(home), environment={"PATH": str(home / "bin")}))


def _known(made: Plan) -> str:
    """All functions and texts that the script has when its ranks start, without comments and empty lines."""
    lines = job_part(made).replace("\\\n", " ").splitlines()
    read = next((line for line in lines if line.startswith("    muster_read ")), "")
    tell = 'declare -f; printf "%s\\n" "$muster_task" "${muster_keeper:-}" "${muster_worker:-}"'
    done = run(["bash", "-c", f"{own_text(made)}\n{read}\nunset -f muster_read\n{tell}"])
    assert (done.ok, done.stderr) == (True, "")
    return "\n".join(line for line in done.stdout.splitlines() if line.strip() and not line.lstrip().startswith("#"))


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun", "mpirun+torchrun"])
@pytest.mark.parametrize("words", [(), ("--restart", "1"), ("--image", "a.sif")], ids=["plain", "rules", "image"])
def test_a_script_that_has_read_the_rest_knows_what_a_whole_one_knows(
    launcher: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    facts = replace(JOB_FACTS, texts=_placed(tmp_path), image=_IMAGE if "--image" in words else None)
    command = ("-N", "2", "-g", "4", *words, "--", "python", "train.py")
    read, whole = (
        plan(*command, launcher=launcher, facts=replace(facts, texts=texts)) for texts in (facts.texts, None)
    )

    assert len(own_text(read).splitlines()) < len(own_text(whole).splitlines()) - 90
    # What a job has in the place of a text it could not read is replaced, or never called.
    assert set(_known(whole).splitlines()) <= set(_known(read).splitlines())


@pytest.mark.parametrize("launcher", ["mpirun", "mpirun+torchrun"])
def test_daemons_of_mpirun_start_on_the_nodes_that_live_also_where_nothing_could_be_read(
    launcher: str, tmp_path: Path
) -> None:
    facts = replace(JOB_FACTS, texts=_placed(tmp_path))
    command = ("-N", "2", "--spares", "1", "--restart", "1", "--", "python", "train.py")
    made = plan(*command, launcher=launcher, facts=facts)
    calls = re.findall("^ *muster_[a-z]+_daemons$", job_part(made), re.MULTILINE)
    tell = 'echo "$SLURM_OVERLAP $OMPI_MCA_plm_slurm_args $PRTE_MCA_plm_slurm_args"'
    begin = "muster_number=2 muster_place=(--nodelist=a,b)"

    assert "mpirun_waits.sh" in job_part(made)
    done = run(["bash", "-c", "\n".join([own_text(made), begin, *calls, tell])])
    assert (done.stdout.strip(), done.stderr) == ("1  --nodelist=a,b  --nodelist=a,b", "")


def test_no_line_of_a_part_is_wider_than_a_page() -> None:
    assert [(name, line) for name in part_files() for line in part(name).splitlines() if len(line) > WIDTH] == []


def test_the_folder_is_another_one_for_other_texts_and_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(_placed(tmp_path) or "")
    assert folder == tmp_path / ".local/share/muster/texts" / folder_name()
    assert {path.name: path.read_text() for path in folder.iterdir()} == texts_of_folder()
    os.utime(folder, (0, 0))
    before = (folder / "watch.sh").stat().st_mtime_ns
    (folder / "left.sh").unlink()
    (folder / "door.py").write_text("")
    (folder / "leave.sh").write_text(texts_of_folder()["leave.sh"][:99])

    assert _placed(tmp_path) == str(folder)  # muster clean sees that a launch has named it
    assert folder.stat().st_mtime > 0
    assert (folder / "watch.sh").stat().st_mtime_ns == before
    assert {path.name: path.read_text() for path in folder.iterdir()} == texts_of_folder()
    monkeypatch.setattr("muster.render.folder.part", lambda name: part(name) + "\n")
    assert _placed(tmp_path) not in {None, str(folder)}


def test_a_script_holds_everything_where_no_folder_can_be_made_or_others_may_change_it(tmp_path: Path) -> None:
    assert place_texts(Facts(home=str(tmp_path), environment={"PATH": "/nowhere"})) is None  # no job is queued here
    folder = Path(_placed(tmp_path) or "")
    (folder / "watch.sh").chmod(0o666)
    assert _placed(tmp_path) is None
    (tmp_path / "other").mkdir()
    (tmp_path / "other/.local").touch()
    assert _placed(tmp_path / "other") is None
    environment = {"PATH": str(tmp_path / "bin"), "XDG_DATA_HOME": "/dev/null"}  # how a person asks for all of it
    assert place_texts(Facts(home=str(tmp_path), environment=environment)) is None


# What the sites' profiles say: leonardo is known by the name of its hosts, jean-zay by nothing.
@pytest.mark.parametrize(
    ("site", "host", "in_lab_of", "is_read"),
    [
        (None, "login", None, True),
        ("generic", "login", None, True),
        ("leonardo", "login01.leonardo.local", None, True),
        ("leonardo", "login", None, False),
        ("jean-zay", "login", None, False),
        ("generic", "login01.leonardo.local", None, False),
        ("jean-zay", "login", "jean-zay", True),
        ("generic", "login", "jean-zay", False),
    ],
)
def test_a_script_for_another_cluster_than_this_one_holds_everything(
    site: str | None, host: str, in_lab_of: str | None, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KnownCluster(cluster([partition_line("main", Default="YES")], [kind_line("main", 4, 64, gres="gpu:4")]))
    monkeypatch.setattr("muster.act.kept_cluster.know_cluster", lambda *_, **__: known)
    _placed(tmp_path)
    environment = {"PATH": str(tmp_path / "bin"), **({"MUSTER_LAB_SITE": in_lab_of} if in_lab_of else {})}
    facts = Facts(home=str(tmp_path), working_directory=str(tmp_path), hostname=host, environment=environment)
    words = ["-N", "1", "-A", "ada@v100", "-t", "30", *(["--site", site] if site else [])]
    values, origins, command = parse([*words, "--", "true"])

    made = plan_for(request_from({}, values, origins, command), facts, words)

    assert (made.site, made.texts is not None) == (site or "generic", is_read)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a file another user's")
def test_a_job_reads_nothing_that_another_user_owns(tmp_path: Path) -> None:
    (tmp_path / "one.sh").write_text("echo mine\n# end\n")
    (tmp_path / "two.sh").write_text("echo foreign\n# end\n")
    os.chown(tmp_path / "two.sh", 65534, 65534)

    done = run(["bash", "-c", f"{part('read')}muster_read {tmp_path} one.sh muster_keeper=two.sh three.sh\necho on"])

    assert done.stdout == "mine\non\n"
    assert f" cannot read {tmp_path}/two.sh, another user's file: the job runs without two.sh three.sh" in done.stderr


@pytest.mark.parametrize("size", range(0, 26, 5))
def test_a_text_that_is_cut_short_is_not_taken(size: int, tmp_path: Path) -> None:
    """A closed job that took a part of its door would run open."""
    text = "echo of a text\n# end\n"
    (tmp_path / "one.sh").write_text(text[:size])

    done = run(["bash", "-c", f'{part("read")}muster_read {tmp_path} muster_door=one.sh\necho "$muster_door"'])

    assert (done.stdout == text) == (done.stderr == "") == (size >= len(text) - 1)
    assert done.stdout in {text, "\n"}


@pytest.mark.parametrize("is_there", [False, True])
def test_a_job_names_what_it_has_not_read_from_the_missing_file_on(is_there: bool, tmp_path: Path) -> None:
    (tmp_path / "one.sh").write_text("echo mine\n# end\n")
    if is_there:  # nobody, not even root, reads a folder as a file
        (tmp_path / "two.sh").mkdir()

    done = run(["bash", "-c", f"{part('read')}muster_read {tmp_path} one.sh two.sh muster_task+=three.sh\necho on"])

    assert done.stdout == "mine\non\n"
    assert done.stderr.startswith("muster: warning: ")
    assert f" cannot read {tmp_path}/two.sh: the job runs without two.sh three.sh\n\nhint: " in done.stderr
