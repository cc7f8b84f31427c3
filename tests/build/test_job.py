"""A build is a job on a real cluster: followed, cancelled with us, and told its password by nobody's command line."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from build.real_registry import PASSWORD, USER, RealRegistry, real_registry
from build.small_registry import small_registry
from muster.cli.app import main
from muster.cli.command_line import read_command
from muster.errors import RequestError
from muster.runner import PIPE, checked, run, start
from muster_build.job import handed_over, take_over
from muster_build.verbs.build import COMMAND, _words_for_job
from muster_lab.internet import MACHINE
from plugins.forked import run_muster
from plugins.labs import MUSTER, Lab, Person, lab_up


@dataclass(frozen=True)
class Site:
    """A lab with a way out, a registry that its hosts reach, and a folder that they share."""

    lab: Lab
    registry: RealRegistry
    program: Path
    folder: Path

    def argv(self, *more: str) -> list[str]:
        image = f"docker://{MACHINE}:{self.registry.port}/real/small:1"
        login = ("--login", USER, "--password-env", "WORD", "--cache", str(self.folder / "cache"))
        output = str(self.folder / "x.sif")
        return self.lab.argv([MUSTER, "build", "image", "--from", image, *login, "-o", output, "--job", *more])

    @property
    def environment(self) -> Mapping[str, str]:
        path = f"{self.program.parent}:{os.environ['PATH']}"
        own = {"PATH": path, "WORD": PASSWORD, "SSL_CERT_FILE": str(self.folder / "authority.pem")}
        return self.lab.person.environment(own)

    def left(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"cache", "authority.pem"}

    def sent(self) -> list[int]:
        """How many bytes of the layer the registry has sent, each time that it was asked."""
        found = re.findall(r'"GET /v2/real/small/blobs/sha256:\w+ \S+" 200 (\d+)', self.registry.log.read_text())
        return [int(size) for size in found if int(size) > 10_000]


@pytest.fixture(scope="module")
def site(
    tester: Person, scratch: Path, engine_for_all: Path, tmp_path_factory: pytest.TempPathFactory, slurm_version: str
) -> Iterator[Site]:
    folder = scratch / "build-job"
    folder.mkdir()
    # What cannot be packed smaller takes the engine its time, in which it is interrupted.
    ballast = os.urandom(24_000_000)
    with (
        small_registry(engine_for_all.with_name("busybox"), ballast=ballast) as small,
        real_registry(tmp_path_factory.mktemp("registry") / "real", password=True, tls=True) as registry,
        lab_up(tester, "builds", "-N", "1", "--internet", "--slurm", slurm_version) as lab,
    ):
        registry.push(small.image)
        assert registry.authority is not None
        (folder / "authority.pem").write_bytes(registry.authority.read_bytes())
        yield Site(lab, registry, engine_for_all, folder)


@pytest.mark.lab
def test_ctrl_c_cancels_the_job_and_the_next_build_goes_on_from_what_was_fetched(site: Site) -> None:
    process = start(site.argv(), env=site.environment, stdout=PIPE, stderr=PIPE, own_group=True)
    assert process.stderr is not None
    seen = b""
    for line in process.stderr:
        seen += line
        if b"Extracting OCI image" in line:  # the layer is here; to unpack and to pack it takes a second or two
            break
    told = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline")]
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert any(b"--given" in words for words in told), seen.decode()
    assert not any(PASSWORD.encode() in words for words in told)
    assert process.returncode == 130
    assert site.left() == set()
    # One that was cancelled may still be completing.
    assert checked(site.lab.exec(["squeue", "--noheader", "--states=PENDING,RUNNING"])).stdout == ""
    assert len(site.sent()) == 1

    built = run(site.argv(), env=site.environment, timeout_s=120)
    assert built.ok, built.stderr
    assert built.stdout == f"{site.folder / 'x.sif'}\n"
    assert "Creating SIF file" in built.stderr
    # The engine asks for the layer, finds that it has it, and hangs up.
    assert len(site.sent()) == 1 or site.sent()[1] < site.sent()[0] / 2
    assert site.left() == {"x.sif", "x.sif.json"}
    record = (site.folder / "x.sif.json").read_text()
    assert json.loads(record)["base"].startswith(f"docker://{MACHINE}:{site.registry.port}/real/small@sha256:")
    assert PASSWORD not in record + built.stderr
    said = site.lab.exec([str(site.program), "exec", str(site.folder / "x.sif"), "echo", "inside"], host="node1")
    assert checked(said).stdout == "inside\n"
    # What is submitted with it remembers which bytes it ran.
    words = [MUSTER, "submit", "-N", "1", "--image", str(site.folder / "x.sif"), "--", "echo", "ran"]
    queued = site.lab.exec(words, cwd=site.folder.parent, env={"PATH": site.environment["PATH"]})
    assert queued.ok, queued.stderr
    kept = [json.loads(file.read_text()) for file in site.folder.parent.glob("*runs/*/record.json")]
    assert [each["image"]["base"] for each in kept] == [json.loads(record)["base"]]
    again = run(site.argv(), env=site.environment, timeout_s=120)
    assert "is up to date" in again.stderr


@pytest.mark.lab
def test_what_fails_in_the_job_is_its_sentence_and_leaves_nothing(site: Site) -> None:
    before = site.left()
    words = site.argv()
    words[words.index(str(site.folder / "x.sif"))] = str(site.folder / "y.sif")
    refused = run(words, env={**site.environment, "WORD": "wrong"}, timeout_s=120)
    assert refused.status == 2
    assert "refuses the user me or the password" in refused.stderr
    assert site.left() == before


def test_the_jobs_words_are_the_same_without_those_that_make_it_a_job() -> None:
    typed = ["--job", "--job-option=-Aphys", "--job-option", "--x", "--password-stdin", "-o", "x.sif"]
    words = read_command(COMMAND.verbs[0], typed)
    assert _words_for_job(words) == ["--password-env", "MUSTER_BUILD_PASSWORD", "-o", "x.sif"]


def test_what_a_job_is_told_is_its_owners_alone_and_is_read_once(tmp_path: Path) -> None:
    environment = {"https_proxy": "http://me:word@proxy", "PATH": "/bin", "HOME": "/home/me", "PIP_INDEX_URL": "x"}
    with handed_over(tmp_path / "x.sif", environment, {"WORD": "open"}) as file:
        assert file.stat().st_mode & 0o777 == 0o600
        told = take_over(file)
        assert told == {"https_proxy": "http://me:word@proxy", "PATH": "/bin", "PIP_INDEX_URL": "x", "WORD": "open"}
        with pytest.raises(RequestError, match="cannot read its order"):
            take_over(file)
    with handed_over(tmp_path / "x.sif", environment, {}) as file:
        assert file.exists()  # a job that never starts reads nothing
    assert not list(tmp_path.iterdir())
    with pytest.raises(RequestError, match="is not there"), handed_over(tmp_path / "none/x.sif", environment, {}):
        pass


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--from", "docker://x/y:1", "--login", "me", "--password-env", "NOT_SET"), "there is no password for me"),
        (("--from", "missing.sif"), "there is no image"),
        (("--from", "docker://x/y:1", "--copy", "missing:/x"), "missing is not there"),
        (("--from", "docker://x/y:1", "-o", "no/such/place/x.sif"), "is not there"),
        ((), "no image to build from is named"),
    ],
)
def test_what_a_look_from_here_refuses_is_not_queued(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    before = set(tmp_path.iterdir())
    argv = ["build", "image", "-o", "x.sif", *words, "--job", "--job-option=--no-such"]
    refused = run_muster(argv, env=os.environ, cwd=tmp_path)
    assert (refused.status, sentence in refused.stderr) == (2, True), refused.stderr
    assert set(tmp_path.iterdir()) == before


def test_the_job_is_of_the_site_that_the_build_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def follow(argv: list[str]) -> int:
        started.append(argv)
        (tmp_path / "venv").mkdir()
        return 0

    monkeypatch.setattr("muster_build.job.follow", follow)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.txt").write_text("six\n")
    assert main(["build", "venv", "--site", "lumi", "--requirements", "r.txt", "venv", "--job"]) == 0
    launch = started[0][: started[0].index("--")]
    assert launch[launch.index("--site") + 1] == "lumi"


def test_a_job_that_ended_well_and_left_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("muster_build.job.follow", lambda _: 0)
    monkeypatch.chdir(tmp_path)

    assert main(["build", "venv", "venv", "--job"]) == 3
    assert "the job ended with status 0, but venv is not to be seen here" in capsys.readouterr().err
