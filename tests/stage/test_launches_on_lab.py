"""Staged copies in the place of the shared ones: under launchers, as an ordinary user, with results brought home."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.runner import ProgramResult, run
from plugins.labs import Lab, Person, lab_up

pytestmark = pytest.mark.lab

PYTHON = Path(sys.executable)
PATH = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="module")
def roomy(tester: Person, slurm_version: str) -> Iterator[Lab]:
    """Two hosts whose disks hold a Python."""
    with lab_up(tester, "roomy", "-N", "2", "--tmp", "2G", "--slurm", slurm_version) as made:
        yield made


def launched(lab: Lab, directory: Path, *words: str) -> ProgramResult:
    command = [str(PYTHON), "-m", "muster", "run", *words]
    return lab.exec(command, cwd=directory, env={"PATH": PATH})


@pytest.fixture
def project(shared_directory: Path) -> Path:
    """A virtual environment with a package, a script, data."""
    run([sys.executable, "-m", "venv", "--without-pip", str(shared_directory / "env")], timeout_s=60)
    (site,) = (shared_directory / "env/lib").glob("python3*/site-packages")
    (site / "installed.py").write_text("where = __file__\n")
    (shared_directory / "beside.py").write_text("value = 7\n")
    (shared_directory / "data").mkdir()
    (shared_directory / "data/a").write_text("staged\n")
    (shared_directory / "train.py").write_text(
        f"""\
import os, sys, beside, installed
assert beside.value == 7
data = open({str(shared_directory / "data/a")!r}).read().strip()
print(os.environ["RANK"], data, installed.where, os.getcwd(), sys.argv[1:], flush=True)
"""
    )
    return shared_directory


# Once per node, when the copies are there and before its ranks start: what is shared is taken away.
TAKEN_AWAY = "sh -c 'mv env/lib gone || :; echo shared >data/a'"


def test_an_environment_and_data_are_read_from_the_copy_also_when_the_shared_one_is_gone(
    roomy: Lab, project: Path
) -> None:
    words = ["--venv", str(project / "env"), "--stage-env", "--stage", "data", "-N", "2", "--ntasks-per-node", "2"]
    done = launched(roomy, project, *words, "--node-prologue", TAKEN_AWAY, "--", "python", "train.py", "a b")
    assert done.ok, done.stderr
    lines = sorted(line.split(": ", 1)[1] for line in done.stdout.splitlines())
    assert [line.split()[:2] for line in lines] == [[str(rank), "staged"] for rank in range(4)], done.stderr
    for line in lines:
        assert f"/tmp/muster-stage-{os.getuid()}/env-" in line
        assert line.endswith(f"{project} ['a b']")
    assert (project / "gone").is_dir()


def test_a_script_alone_finds_what_submit_packed_unless_it_has_changed(lab: Lab, project: Path) -> None:
    """The script that `plan` prints runs with sbatch alone."""
    words = ["--stage", "data", "--", "sh", "-c", "cat data/a; grep -c stage /proc/self/mountinfo"]
    muster = [str(PYTHON), "-m", "muster"]
    script = lab.exec([*muster, "plan", *words], cwd=project, env={"PATH": PATH}).stdout
    (project / "job.sh").write_text(script)
    alone = ("--output=out.txt", "job.sh")
    lab.batch(*alone, cwd=project)
    said = (project / "out.txt").read_text()
    assert "data is not staged: it is not packed yet (muster submit and muster run pack it)" in said
    launched(lab, project, "--stage", "data", "--", "true")
    lab.batch(*alone, cwd=project)
    assert "muster: data: on 1 nodes" in (project / "out.txt").read_text()
    time.sleep(1.1)
    (project / "data/b").write_text("new")
    lab.batch(*alone, cwd=project)
    assert "has changed since it was packed" in (project / "out.txt").read_text()


def test_a_disk_that_is_full_since_the_copy_came_is_told_as_full(new_lab: Callable[..., Lab], project: Path) -> None:
    lab = new_lab("-N", "2")
    words = ["--stage", "data", "-N", "2", "--", "cat", "data/a"]
    assert "is not staged" not in launched(lab, project, *words).stderr
    assert lab.muster("fault", "fill-tmp", "node2").ok
    done = launched(lab, project, *words)
    assert (done.ok, "(no room in /tmp/muster-stage-" in done.stderr) == (True, True), done.stderr


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun", "mpirun+torchrun"])
def test_other_launchers_start_their_ranks_behind_the_copies(lab: Lab, project: Path, launcher: str) -> None:
    words = ["--launcher", launcher, "--stage", "data", "-N", "2", "--ntasks-per-node", "2"]
    done = launched(lab, project, *words, "--node-prologue", "sh -c 'echo shared >data/a'", "--", "cat", "data/a")
    if launcher == "mpirun":
        assert done.ok, done.stderr
    assert done.stdout.count("staged") == 4, done.stderr


def test_what_ranks_write_is_brought_and_of_one_name_both_are_kept(lab: Lab, project: Path) -> None:
    # The first rank that fails ends the others: both have written by then.
    script = "cd $0; echo $RANK >rank$RANK; mkdir -p deep; echo $RANK >deep/same; sleep 1; exit $1"
    for status in (0, 3):
        out = project / f"out{status}"
        out.mkdir()
        words = ["--stage-out", out.name, "-N", "2", "--ntasks-per-node", "1", "--", "sh", "-c", script]
        done = launched(lab, project, *words, str(out), str(status))
        assert done.status == status, done.stderr
        found = {str(each.relative_to(out)): each.read_text().strip() for each in out.rglob("*") if each.is_file()}
        assert {found.pop("rank0"), found.pop("rank1")} == {"0", "1"}
        assert sorted(found.values()) == ["0", "1"]
        assert "deep/same" in found
        assert next(name for name in found if name != "deep/same") in {"deep/same.node1", "deep/same.node2"}
        assert f"2 files to {out}" in done.stderr
        assert "an empty folder at the start" in done.stderr


def test_a_job_that_is_cancelled_brings_home_what_its_ranks_wrote_last(lab: Lab, project: Path) -> None:
    # Slurm signals sleep too: a shell that waits for it once may have ended with 0 when its own signal comes.
    wait = "while :; do sleep 60 & wait; done"
    script = f'trap "sleep 1; echo last >>out/$RANK; exit 1" TERM; echo first >out/$RANK; {wait}'
    muster = [str(PYTHON), "-m", "muster", "submit", "--quiet", "--stage-out", "out", "-N", "2"]
    job = lab.exec([*muster, "--", "sh", "-c", script], cwd=project, env={"PATH": PATH}).stdout.strip()
    mark = f"/tmp/muster-stage-{os.getuid()}/job-{job}/out"
    _wait(lambda: all(lab.exec(["ls", mark], host=host).stdout != "" for host in ("node1", "node2")))
    assert not list((project / "out").iterdir())
    lab.exec(["scancel", job])
    brought = {"0": "first\nlast\n", "1": "first\nlast\n"}
    # A folder of the job stands there while the files come.
    _wait(lambda: {each.name: each.read_text() for each in (project / "out").iterdir() if each.is_file()} == brought)
    _wait(lambda: {each.name for each in (project / "out").iterdir()} == set(brought))


def test_a_script_that_writes_beside_itself_loses_nothing(roomy: Lab, project: Path) -> None:
    (project / "kept").mkdir()
    (project / "train.py").write_text(
        "from pathlib import Path\nhere = Path(__file__).parent\n"
        "(here / 'kept/file').write_text('1')\n(here / 'new').write_text('2')\n"
    )
    done = launched(roomy, project, "--venv", str(project / "env"), "--stage-env", "--", "python", "train.py")
    assert done.ok, done.stderr
    assert (project / "kept/file").read_text() == "1"
    assert "the script wrote files into its own folder on node" in done.stderr
    (new,) = project.glob("muster-runs/*/beside-script/*/new")
    assert new.read_text() == "2"


def test_an_ordinary_user_is_the_same_user_behind_the_copies(lab: Lab, project: Path) -> None:
    """In user namespaces, one for all ranks of a node: they may share memory, and files are theirs."""
    script = "cat data/a; id -u; readlink /proc/self/ns/user; echo $RANK >out/$RANK; hostname"
    muster = [str(PYTHON), "-m", "muster"]
    words = ["--stage", "data", "--stage-out", "out", "-N", "2", "--ntasks-per-node", "2", "--", "sh", "-c", script]
    launched(lab, project, *words[:2], "--", "true")
    # Who has no folder for Muster's texts gets a script that holds everything, and may give it to another user.
    nowhere = {"PATH": PATH, "XDG_DATA_HOME": "/proc/none"}
    made = lab.exec([*muster, "plan", *words], cwd=project, env=nowhere).stdout
    (project / "job.sh").write_text(made)
    lab.exec(["chmod", "-R", "a+rwX", str(project)])
    done = lab.exec(["sbatch", "--wait", "--output=%j.txt", "job.sh"], cwd=project, user="alice")
    assert done.ok, done.stderr
    logs = "".join(each.read_text() for each in project.glob("*.txt"))
    told = {rank: [line[3:] for line in logs.splitlines() if line.startswith(f"{rank}: ")] for rank in range(4)}
    own = lab.exec(["id", "-u"], user="alice").stdout.strip()
    assert [told[rank][:2] for rank in range(4)] == [["staged", own]] * 4, logs
    assert told[0][2] == told[1][2] != told[2][2] == told[3][2]
    assert sorted(each.name for each in (project / "out").iterdir()) == ["0", "1", "2", "3"]


@pytest.fixture
def closed(roomy: Lab, shared_directory: Path) -> Iterator[Lab]:
    """Hosts on which nobody may make a namespace."""
    refusing = shared_directory / "unshare"
    refusing.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    refusing.chmod(0o755)
    for host in ("node1", "node2"):
        roomy.exec(["mount", "--bind", str(refusing), "/usr/bin/unshare"], host=host)
    yield roomy
    for host in ("node1", "node2"):
        roomy.exec(["umount", "/usr/bin/unshare"], host=host)


@pytest.mark.parametrize("relocatable", [False, True])
def test_where_nobody_may_mount_only_what_works_elsewhere_is_used(
    closed: Lab, project: Path, relocatable: bool
) -> None:
    if relocatable:
        with (project / "env/pyvenv.cfg").open("a") as file:
            file.write("relocatable = true\n")
    words = ["--venv", str(project / "env"), "--stage-env", "--stage", "data", "--", "python", "train.py"]
    done = launched(closed, project, *words)
    assert done.ok, done.stderr
    assert "does not let users mount (unshare failed: Operation not permitted)" in done.stderr
    place = f"/tmp/muster-stage-{os.getuid()}" if relocatable else f"{project}/env"
    assert place in done.stdout
    assert ("it is not relocatable" in done.stderr) is not relocatable


def _wait(holds: Callable[[], bool], timeout_s: float = 40) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.2)
