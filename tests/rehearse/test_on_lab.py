"""Rehearsals for real: a lab like the site, its sbatch, the probe in every rank, the script; nothing is left."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from images.conftest import Images, images
from lab.processes import alive, becomes_true, descendants
from muster.runner import PIPE, ProgramResult, end_group, run, start
from plugins.labs import Person
from sites.golden_scripts import Case, words_of
from sites.profiles import SITES, bundled

pytestmark = pytest.mark.lab

__all__ = ["images"]  # a fixture

LUMI = ("--site", "lumi", "-A", "project_465000000", "-N", "2", "-t", "30")
CLARIDEN = ("--site", "clariden", "-N", "2", "-t", "30")
HOREKA = ("--site", "horeka", "-N", "2", "-t", "30", "--mem", "691G")
MARENOSTRUM = ("--site", "marenostrum5", "-A", "bsc98", "-q", "acc_ehpc", "-N", "2", "-t", "30")

PLAIN = "import os, sys\nprint('said', os.environ['RANK'], os.environ['WORLD_SIZE'], sys.argv[1:])\n"
GLOO = """\
import torch
import torch.distributed as dist

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print("sum", total.item())
dist.destroy_process_group()
"""
NCCL = "import torch.distributed as dist\n\ndist.init_process_group('nccl')\n"


@pytest.fixture
def project(scratch: Path, request: pytest.FixtureRequest) -> Path:
    folder = scratch / f"project-{abs(hash(request.node.name))}"
    folder.mkdir()
    return folder


def rehearse(tester: Person, project: Path, *words: str) -> ProgramResult:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # `python` is the one that has torch
    environment = {**tester.environment(), "PWD": str(project), "PATH": path}
    return run(tester.argv("run", "--rehearse", *words), env=environment, cwd=project, timeout_s=240)


def nothing_is_left(tester: Person) -> bool:
    folder = tester.home / ".local/state/muster/labs"
    return not [each for each in (folder.iterdir() if folder.is_dir() else ()) if "rehearsal" in each.name]


def test_on_lumi_the_probe_runs_in_every_rank_and_the_script_in_four(tester: Person, project: Path) -> None:
    (project / "train.py").write_text(PLAIN)

    done = rehearse(tester, project, *LUMI, "--", "python", "train.py", "a b", "$HOME")

    assert done.status == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{rank}: said {rank} 4 ['a b', '$HOME']" for rank in range(4)]
    for said in (
        "sbatch takes the script as the site's would: partition standard-g, account project_465000000",
        "16 ranks on 2 hosts, each with a rank and a local rank of its own",
        "all of them meet at the host of rank 0: g-n1",
        "the command reached every rank word for word (4 words)",
        "srun took the 8 CPU masks, no core is in two of them",
        "one rank that ends with status 7 ends the job, with that status",
        "train ran to its end with 4 ranks",
    ):
        assert f"ok    {said}" in done.stderr
    for said in ("the fabric (Slingshot", "the GPUs", "the binding itself", "`rocm-smi`"):
        assert f"  - {said}" in done.stderr or said in done.stderr.partition("not shown:")[2]
    assert "WRONG" not in done.stderr
    assert nothing_is_left(tester)


CHECKPOINTS = """\
import hashlib, os, pathlib
old = pathlib.Path("ckpt.pt")
print("resumed", old.read_text())
old.write_text("overwritten")
pathlib.Path("gone.txt").unlink()
pathlib.Path("out/deep").mkdir(parents=True)
pathlib.Path("out/deep/new.bin").write_bytes(bytes(3000))
pathlib.Path(os.environ["ELSEWHERE"], "other.txt").write_text("also")
"""


@pytest.mark.parametrize("ordinary", [False, True], ids=["tester", "ordinary"])
@pytest.mark.parametrize("place", ["home", "tmp"])
def test_a_rehearsal_leaves_every_file_as_it_was_and_names_what_it_would_have_written(
    request: pytest.FixtureRequest, scratch: Path, project: Path, tmp_path: Path, ordinary: bool, place: str
) -> None:
    person = request.getfixturevalue("ordinary_person" if ordinary else "tester")
    folder = project if place == "home" else Path(mkdtemp(dir="/tmp", prefix="a project "))
    elsewhere = Path(mkdtemp(dir=person.home))
    before = {"train.py": CHECKPOINTS, "ckpt.pt": "epoch 3", "gone.txt": "keep me"}
    for name, text in before.items():
        (folder / name).write_text(text)
    if person.prefix():  # a user namespace copies the files of its own user only
        for each in (folder, elsewhere, *folder.iterdir()):
            os.chown(each, 20001, 20001)
    environment = {**person.environment(), "HOME": str(person.home), "PWD": str(folder), "ELSEWHERE": str(elsewhere)}
    words = [*CLARIDEN, "--ranks", "1", "--env", "ELSEWHERE", "--", sys.executable, "train.py"]

    try:
        done = run(person.argv("run", "--rehearse", *words), env=environment, cwd=folder, timeout_s=240)

        assert done.status == 0, done.stderr
        assert done.stdout == "resumed epoch 3\n"
        assert {each.name: each.read_text() for each in folder.iterdir()} == before
        assert not list(elsewhere.iterdir())
        assert "what is written goes into a copy-on-write view" in done.stderr
        told = done.stderr.partition("would have written")[2]
        for line in (
            "ckpt.pt  11 bytes",
            "gone.txt  removed",
            "out/deep/new.bin  3,000 bytes",
            f"{elsewhere}/other.txt  4 bytes",
        ):
            assert f"  {line}\n" in told
    finally:
        if place == "tmp":
            rmtree(folder)


@pytest.mark.torch
def test_on_clariden_without_its_container_engine_the_ranks_meet_over_gloo(tester: Person, project: Path) -> None:
    (project / "train.py").write_text(GLOO)

    done = rehearse(tester, project, *CLARIDEN, "--image", "docker://quay.io/x/torch:2", "--", "python", "train.py")

    assert done.status == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{rank}: sum 10.0" for rank in range(4)]
    assert "the container (cscs, docker://quay.io/x/torch:2): no cscs here" in done.stderr.partition("not shown:")[2]


@pytest.mark.long
def test_an_image_that_runs_here_is_part_of_the_rehearsal(tester: Person, project: Path, images: Images) -> None:
    words = [*HOREKA, "--image", str(images.sandbox), "--", "sh", "-c", "echo $FROM_IMAGE $RANK"]
    environment = {**tester.environment(), "PWD": str(project), "PATH": images.path}
    done = run(tester.argv("run", "--rehearse", *words), env=environment, cwd=project, timeout_s=240)

    assert done.status == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{rank}: image {rank}" for rank in range(4)]
    assert "the container" not in done.stderr.partition("not shown:")[2]


def test_a_script_that_fails_gives_its_status_and_is_said(tester: Person, project: Path) -> None:
    (project / "train.py").write_text("raise SystemExit(5)\n")

    done = rehearse(tester, project, *HOREKA, "--ranks", "2", "--", "python", "train.py")

    assert done.status == 5
    assert "WRONG train is broken: it ended with status 5" in done.stderr
    assert "ok    8 ranks on 2 hosts" in done.stderr
    assert nothing_is_left(tester)


@pytest.mark.long
@pytest.mark.torch
def test_a_script_that_insists_on_nccl_is_not_shown_and_not_wrong(tester: Person, project: Path) -> None:
    (project / "train.py").write_text(NCCL)

    done = rehearse(tester, project, *MARENOSTRUM, "--", "python", "train.py")

    assert done.status == 0
    hidden = done.stderr.partition("not shown:")[2]
    assert "it insists on a GPU (RuntimeError: Distributed package doesn't have NCCL built in; line 3" in hidden


@pytest.mark.long
@pytest.mark.parametrize("site", SITES)
def test_a_job_of_every_site_can_be_rehearsed_and_nothing_is_wrong(tester: Person, project: Path, site: str) -> None:
    allowed = bundled(site).profile.launch.allowed or ("srun",)
    launcher = "srun" if "srun" in allowed else allowed[0]
    words = words_of(Case(site, "four-nodes", launcher, "venv"))
    words[words.index("-N") + 1] = "2"
    words[words.index("--venv") + 1] = "none"

    done = rehearse(tester, project, "--site", site, "--launcher", launcher, *words, "--", "true")

    assert done.status == 0, done.stderr
    assert "WRONG" not in done.stderr
    assert "not shown:" in done.stderr


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_takes_the_lab_down(tester: Person, project: Path, number: int, expected: int) -> None:
    words = tester.argv("run", "--rehearse", *CLARIDEN, "--ranks", "1", "--", "sh", "-c", "echo started; sleep 600")
    environment = {**tester.environment(), "PWD": str(project)}
    process = start(words, env=environment, cwd=project, stdout=PIPE, own_group=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"started\n"
        os.kill(process.pid, number)
        status = process.wait(60)
    finally:
        end_group(process)

    assert status == expected
    assert nothing_is_left(tester)


def test_a_rehearsal_that_is_killed_takes_its_lab_with_it(tester: Person, project: Path) -> None:
    words = tester.argv("run", "--rehearse", *CLARIDEN, "--ranks", "1", "--", "sh", "-c", "echo started; sleep 600")
    environment = {**tester.environment(), "PWD": str(project)}
    process = start(words, env=environment, cwd=project, stdout=PIPE, own_group=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"started\n"
        (entry,) = (tester.home / ".local/state/muster/labs").glob("rehearsal-*.json")
        members = descendants(json.loads(entry.read_text())["pid"])
        process.kill()
        process.wait(60)
        assert len(members) > 5
        assert becomes_true(lambda: not alive(members))
    finally:
        end_group(process)

    assert tester.muster("lab", "down").status == 2  # any verb that asks for labs clears the entry
    assert nothing_is_left(tester)


def test_a_terminal_that_is_nobodys_controlling_terminal_is_no_hindrance(tester: Person, project: Path) -> None:
    ours, theirs = pty.openpty()
    words = tester.argv("run", "--rehearse", "--site", "generic", "-t", "5", "--", "true")
    process = subprocess.Popen(
        words,
        env=tester.environment(),
        cwd=project,
        stdin=theirs,
        stdout=-1,
        stderr=-1,
        text=True,
        start_new_session=True,
    )
    said = process.communicate(timeout=120)[1]
    os.close(ours)
    os.close(theirs)

    assert process.returncode == 0, said
    assert "true ran to its end with 1 ranks" in said


def test_what_muster_refuses_needs_no_lab(tester: Person, project: Path) -> None:
    done = rehearse(tester, project, "--site", "lumi", "-N", "2", "-t", "90:00:00", "--", "true")

    assert done.status == 2
    assert "lumi wants --account" in done.stderr
    assert "starting" not in done.stderr


def test_what_the_labs_sbatch_refuses_is_refused_as_the_site_would(tester: Person, project: Path) -> None:
    done = rehearse(tester, project, *CLARIDEN, "--sbatch=--licenses=nothing", "--", "true")

    assert done.status == 3
    assert "Invalid license specification" in done.stderr
    assert nothing_is_left(tester)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--here", "--", "true"), "--rehearse needs a cluster"),
        (("--ranks", "0", "--", "true"), "--ranks: '0' is not a count"),
        (("--site", "generic", "-N", "600", "--", "true"), "600 nodes and 600 ranks are more than a lab"),
        (("--site", "generic", "--chdir", "/tmp", "--", "true"), "the working directory /tmp is this host's own"),
    ],
)
def test_what_cannot_be_rehearsed_is_a_sentence(
    tester: Person, project: Path, words: tuple[str, ...], said: str
) -> None:
    done = rehearse(tester, project, *words)

    assert done.status == 2
    assert said in done.stderr
    assert "hint: " in done.stderr


def test_ranks_without_a_rehearsal_is_a_sentence(tester: Person, project: Path) -> None:
    done = run(tester.argv("run", "--ranks", "2", "--", "true"), env=tester.environment(), cwd=project)

    assert (done.status, "--ranks belongs to --rehearse" in done.stderr) == (2, True)
