"""What an order becomes: the words that pip, Python and the engines get, and what lies there afterwards."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import ssl
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from muster.cli import launching as cli_launching
from muster.cli.command_line import TypedLaunch, Words
from muster.errors import CommandFailed, MachineLacks, RequestError, SiteError
from muster.job.options import Typed
from muster.runner import ProgramResult
from muster_build import job as jobs
from muster_build import lock, registry, venv
from muster_build.commands import _has_subordinate_ids
from muster_build.definition import Copy, compose, from_containerfile
from muster_build.engine import Builder, _own_folder, find_builder
from muster_build.enroot import credentials
from muster_build.image import ImageOrder, _judge_packages
from muster_build.job import follow
from muster_build.lock import LockOrder, build_lock
from muster_build.pins import Pin, pins_of_conda
from muster_build.pip import pip
from muster_build.podman import _environment
from muster_build.registry import Login
from muster_build.source import RegistryImage, parse_source
from muster_build.venv import VenvOrder, build_venv
from muster_build.verbs import build as verbs

_FROM = "FROM base\n"


@pytest.mark.parametrize(
    ("lines", "sections"),
    [
        ("", []),
        ("COPY a /a\n", ["%files"]),
        ("ENV A=1\nCOPY a /a\n", ["%files", "%environment", "%post"]),
        ("WORKDIR /w\nCOPY a /a\nRUN b\n", ["%files", "%post"]),
        ("RUN b\nWORKDIR /w\n", ["%post"]),
        ("RUN b\nCOPY a /a\n", "copies after RUN"),
        ("FROM other\n", "line 2 of the Containerfile has no simple counterpart"),
    ],
)
def test_a_containerfile_that_copies_before_it_runs_becomes_a_definition(lines: str, sections: list[str] | str) -> None:
    with pytest.raises(RequestError, match=sections) if isinstance(sections, str) else nullcontext():
        made = from_containerfile(_FROM + lines)
        assert [line for line in made.splitlines() if line.startswith("%")] == sections


def test_a_source_that_is_not_there_is_named_before_the_program_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    given = {"from": "docker-archive:nosuch.tar", "output": tmp_path / "x.sif", "copy": (), "cache": None}
    words = _words(**dict.fromkeys(("def", "pip", "login", "site", "sandbox", *_NONE)), **given)

    with pytest.raises(RequestError, match=r"nosuch\.tar is not there"):
        verbs._image(words)


@pytest.mark.parametrize(("mode", "stranger", "taken"), [(0o700, 0, True), (0o720, 0, False), (0o700, 1, False)])
def test_the_cache_on_a_nodes_disk_is_the_users_alone(tmp_path: Path, mode: int, stranger: int, taken: bool) -> None:
    uid = os.geteuid() + stranger
    (tmp_path / f"muster-{uid}").mkdir()
    (tmp_path / f"muster-{uid}").chmod(mode)
    with nullcontext() if taken else pytest.raises(RequestError, match="can be written by other users"):
        assert _own_folder({"TMPDIR": str(tmp_path)}, uid) == tmp_path / f"muster-{uid}"


def test_a_link_in_the_place_of_the_cache_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / f"muster-{os.geteuid()}").symlink_to(tmp_path)
    with pytest.raises(RequestError, match="can be written by other users"):
        _own_folder({"TMPDIR": str(tmp_path)}, os.geteuid())


@pytest.mark.parametrize(
    ("uids", "gids", "has"), [("0:1:2", "0:1:2", True), ("0:1:2", "7:1:2", False), ("root:1:2", "0:1:2", True)]
)
def test_subordinate_ids_are_there_for_users_and_groups(tmp_path: Path, uids: str, gids: str, has: bool) -> None:
    assert not _has_subordinate_ids(0, tmp_path)
    (tmp_path / "subuid").write_text(f"ada:1:2\n{uids}\n")
    (tmp_path / "subgid").write_text(f"{gids}\n")
    assert _has_subordinate_ids(0, tmp_path) is has
    assert not _has_subordinate_ids(2**31 - 9, tmp_path)


def _package(name: str, **hashes: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "version": "1"}, "download_info": {"archive_info": {"hashes": hashes}}}


@pytest.mark.parametrize("wheelhouse", [None, "w/heels"])
def test_a_lock_names_each_archive_and_fetches_it_for_the_target(tmp_path: Path, wheelhouse: str | None) -> None:
    asked: list[Sequence[str]] = []

    def answer(argv: Sequence[str], **_: Any) -> ProgramResult:
        asked.append(argv[5:])
        return ProgramResult(tuple(argv), 0, "note\n" + json.dumps({"install": [_package("A_b", sha256="00")]}), "")

    (tmp_path / "r.txt").write_text("--index-url https://x\nA_b\n")
    folder = tmp_path / wheelhouse if wheelhouse else None
    order = LockOrder(requirements=tmp_path / "r.txt", output=tmp_path / "lock", wheelhouse=folder, arch="aarch64")
    for _ in range(2):
        assert build_lock(order, Path("python"), {}, lambda _: None, answer) == 1
    assert (tmp_path / "lock").read_text() == "--index-url https://x\na-b==1 --hash=sha256:00\n"
    assert [words[0] for words in asked[:2]] == ["install", "download" if wheelhouse else "install"]
    assert any(word.startswith("--target") for word in asked[0])
    assert not wheelhouse or not any(word.startswith("--target") for word in asked[1])
    assert {path.name for path in tmp_path.iterdir()} == {"r.txt", "lock", *(["w"] if wheelhouse else [])}


@pytest.mark.parametrize(
    ("output", "wheelhouse", "sentence"),
    [
        (".", None, "-o . is a directory"),
        ("folder", None, "-o folder is a directory"),
        ("missing/lock", None, "you cannot write there"),
        ("lock", "file", "--wheelhouse file is not a directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_pip_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, wheelhouse: str | None, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    Path("r.txt").write_text("a\n")
    order = LockOrder(
        requirements=Path("r.txt"), output=Path(output), wheelhouse=Path(wheelhouse) if wheelhouse else None
    )
    with pytest.raises(RequestError, match=sentence):
        build_lock(order, Path("python"), {}, lambda _: None, lambda *_, **__: pytest.fail("pip is asked"))


def test_nothing_is_left_of_a_lock_for_which_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: Any) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    def answer(argv: Sequence[str], **_: Any) -> ProgramResult:
        return ProgramResult(tuple(argv), 0, json.dumps({"install": [_package("a", sha256="00")]}), "")

    (tmp_path / "r.txt").write_bytes(b"\xef\xbb\xbfa==1\r\n")
    assert [pin.name for pin in lock.look_at_pins(tmp_path / "r.txt", None)] == ["a"], "as Windows writes it"
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="No space"):
        build_lock(
            LockOrder(requirements=tmp_path / "r.txt", output=tmp_path / "lock"),
            Path("python"), {}, lambda _: None, answer,
        )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["r.txt"]


def test_a_package_that_is_no_archive_is_not_locked() -> None:
    with pytest.raises(RequestError, match="a is not an archive"):
        list(lock._locked({"install": [_package("a", md5="0")]}))


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("ends_well", [True, False])
def test_an_environment_is_there_whole_or_as_it_was(tmp_path: Path, is_there: bool, ends_well: bool) -> None:
    folder = tmp_path / "env"
    if is_there:
        folder.mkdir()
        (folder / "muster.json").write_text("{}")

    def answer(argv: Sequence[str], **_: Any) -> ProgramResult:
        return ProgramResult(tuple(argv), 0 if ends_well else 1, 'torch says hello\n{"python": "3.11"}\n', "no")

    order = VenvOrder(directory=folder, python="true", replace=True)
    if not ends_well:
        with pytest.raises(CommandFailed):
            build_venv(order, {"PATH": os.environ["PATH"]}, lambda _: None, runner=answer)
        assert [path.read_text() for path in tmp_path.rglob("*.json")] == ["{}"] * is_there
        assert len(list(tmp_path.iterdir())) == is_there
        return
    for is_new in (True, False):
        assert build_venv(order, {"PATH": os.environ["PATH"]}, lambda _: None, runner=answer) is is_new
    record = json.loads((folder / "muster.json").read_text())
    assert (record["muster_build"], record["python"]) == (1, "3.11")
    assert [path.name for path in tmp_path.rglob("*")] == ["env", "muster.json"]


@pytest.mark.parametrize("flags", [(), ("--sandbox",), ("--no-https",), ("--no-https", "--sandbox")])
def test_commands_under_proot_run_in_a_folder_that_becomes_the_image(tmp_path: Path, flags: tuple[str, ...]) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("engine", "proot"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/asked\n')
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "image.def").write_text("Bootstrap: docker\nFrom: a\n\n%post\n    true\n")
    (tmp_path / "box").mkdir()
    builder = Builder(f"{tmp_path}/bin/engine", tmp_path, {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    builder._build_by_proot(tmp_path / "x.sif", tmp_path / "image.def", lambda _: None, flags)

    is_folder = "--sandbox" in flags
    box = tmp_path / ("x.sif" if is_folder else "box")
    asked = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    fetch = ["--no-https"] * ("--no-https" in flags)
    assert asked[0] == ["engine", "build", "--sandbox", *fetch, str(box), str(tmp_path / "rest.def")]
    assert asked[1][:4] == ["proot", "-0", "-r", str(box)]
    assert asked[2:] == ([] if is_folder else [["engine", "build", str(tmp_path / "x.sif"), str(box)]])
    assert (tmp_path / "box").exists() is is_folder


def test_ctrl_c_ends_the_job_that_builds() -> None:
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    assert follow(["sh", "-c", "exit 7"]) == 7
    assert follow(["sh", "-c", "sleep 0.3; kill -INT $PPID; sleep 100"]) == 130
    signal.signal(signal.SIGINT, heard)


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, SiteError), (errno.EDQUOT, SiteError), (errno.EACCES, PermissionError)]
)
def test_a_full_disk_is_said_and_a_signal_ends_a_build_in_order(
    monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)
    heard: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", heard.__setitem__)

    def fail(_: Words) -> int:
        raise OSError(number, "no")

    with pytest.raises(error):
        verbs._in_order(fail)(_words())
    assert sorted(heard) == [signal.SIGHUP, signal.SIGTERM]
    with pytest.raises(SystemExit) as left:
        heard[signal.SIGTERM](15, None)
    assert left.value.code == 143


def _words(*operands: str, **values: Any) -> Words:
    return Words("build", values, TypedLaunch({}, {}, (), ()), Typed({}, {}, operands, ()))


_NONE = dict.fromkeys(("python", "wheelhouse", "offline", "replace", "quiet", "requirements", "gpu_kind"))


@pytest.mark.parametrize(("typed", "gpu_kind"), [(None, "rocm"), ("cuda", "cuda")])
def test_an_environment_is_for_its_site(monkeypatch: pytest.MonkeyPatch, typed: str | None, gpu_kind: str) -> None:
    orders: list[VenvOrder] = []
    monkeypatch.setattr(venv, "build_venv", lambda order, *_: orders.append(order))
    words = {**_NONE, "python": "python3", "requirements": (), "site": "frontier", "gpu_kind": typed}
    verbs._venv(_words("env", **words, module=("mine",), module_use=("/m",)))
    assert orders[0].gpu_kind == gpu_kind
    assert orders[0].modules[-1:] == ("mine",)
    assert len(orders[0].modules) > 1
    assert orders[0].module_use[-1:] == ("/m",)


@pytest.mark.parametrize(
    ("arch", "gpu_kind", "order"), [(None, None, ("x86_64", "rocm")), ("aarch64", "cuda", ("aarch64", "cuda"))]
)
def test_a_lock_is_for_its_site(
    monkeypatch: pytest.MonkeyPatch, arch: str | None, gpu_kind: str | None, order: tuple[str, str]
) -> None:
    orders: list[LockOrder] = []

    def note(order: LockOrder) -> list[Pin]:
        orders.append(order)
        return []

    monkeypatch.setattr(lock, "read_pins", note)
    names = ("requirements", "output", "wheelhouse", "glibc", "python_version", "find_links")
    values = {**dict.fromkeys(names), "requirements": Path("r.txt"), "glibc": "2.28"}
    verbs._lock(_words(**values, offline=False, json=True, site="lumi", arch=arch, gpu_kind=gpu_kind))
    assert (orders[0].arch, orders[0].gpu_kind) == order


@pytest.mark.parametrize(
    ("source", "definition", "user"),
    [
        ("docker://reg.example/a", None, "ada"),
        ("docker://reg.example/a", "FROM other.example/b\n", "ada"),
        ("docker://other.example/b", "FROM reg.example/a\n", None),
        (None, "FROM reg.example/a\n", "ada"),
    ],
)
def test_who_pulls_is_known_to_the_registry_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, definition: str | None, user: str | None
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"reg.example": {"auth": "YWRhOnNlY3JldA=="}}}))
    if definition:
        (tmp_path / "Containerfile").write_text(definition)
    order = ImageOrder(
        output=tmp_path / "x.sif",
        source=parse_source(source) if source else None,
        definition=tmp_path / "Containerfile" if definition else None,
    )
    login = verbs._login(_words(login=None, password_env=None, password_stdin=False), order)
    assert (login.user if login else None) == user


@pytest.mark.parametrize(
    ("login", "variable", "stdin", "password"),
    [
        (None, "WORD", False, "no user"),
        (None, None, True, "no user"),
        ("ada", "WORD", False, "secret"),
        ("ada", "WORD", True, "typed"),
        ("ada", "NONE", False, "no password"),
        ("ada", None, False, "no password"),
    ],
)
def test_a_password_is_of_a_user_and_a_job_is_handed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str | None, variable: str | None, stdin: bool, password: str
) -> None:
    monkeypatch.setenv("WORD", "secret")
    monkeypatch.setattr(sys, "stdin", io.StringIO("typed\n"))
    order = ImageOrder(output=tmp_path / "x.sif", source=parse_source("docker://reg.example/a"))
    words = _words(
        **{**_NONE, "login": login, "password_env": variable, "password_stdin": stdin, "job": True, "site": None},
        job_option=(),
        output=tmp_path / "x.sif",
    )
    if password.startswith("no "):
        with pytest.raises(RequestError, match=password):
            verbs._login(words, order)
        return
    handed: list[dict[str, str]] = []

    @contextmanager
    def hand_over(target: Path, environment: Any, secret: dict[str, str]) -> Iterator[Path]:
        handed.append(secret)
        yield target

    monkeypatch.setattr(verbs, "_image_order", lambda _: order)
    monkeypatch.setattr(cli_launching, "start_by_name", lambda *_: None)
    monkeypatch.setattr(jobs, "handed_over", hand_over)
    for status in (1, 0):
        monkeypatch.setattr(jobs, "follow", lambda _, status=status: status)
        monkeypatch.setattr(sys, "stdin", io.StringIO("typed\n"))
        with nullcontext() if status else pytest.raises(SiteError, match="is not to be seen here"):
            assert verbs._as_job(verbs._image, words) == 1
    assert handed == [{variable: password}] * 2


@pytest.mark.parametrize(
    ("names", "cache", "variable", "found"),
    [
        (("apptainer", "singularity"), None, False, "node/apptainer"),
        (("singularity", "apptainer"), None, True, "node/apptainer"),
        (("apptainer",), None, True, "kept"),
        (("apptainer",), "given", True, "given"),
        (("enroot",), None, False, "enroot is not on PATH"),
        (("singularity",), None, False, "no program that builds images"),
    ],
)
def test_the_engine_of_the_path_keeps_what_it_fetches_where_somebody_said(
    tmp_path: Path, names: tuple[str, ...], cache: str | None, variable: bool, found: str
) -> None:
    (tmp_path / "apptainer").touch(0o755)
    environment = {"PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    if variable:
        environment["APPTAINER_CACHEDIR" if names == ("apptainer",) else "SINGULARITY_CACHEDIR"] = "/kept"
    uid = os.geteuid()
    place = {"node/apptainer": tmp_path / f"muster-{uid}/apptainer", "kept": Path("/kept"), "given": Path("/given")}
    with nullcontext() if found in place else pytest.raises(MachineLacks, match=found):
        builder = find_builder(environment, Path("/given") if cache else None, uid, names=names)
        assert (builder.program, builder.cache) == (str(tmp_path / "apptainer"), place[found])


@pytest.mark.parametrize(
    ("host", "code", "asked"),
    [
        ("127.0.0.1:5000", 0, ["http+"]),
        ("reg.example", 0, ["https"]),
        ("127.0.0.1:5000", 400, ["http+", "https+"]),
        ("reg.example", 400, ["https"]),
    ],
)
def test_a_password_is_shown_to_this_machine_alone_unasked(
    monkeypatch: pytest.MonkeyPatch, host: str, code: int, asked: list[str]
) -> None:
    seen: list[str] = []

    def ask(url: str, headers: dict[str, str], **_: Any) -> dict[str, str]:
        scheme = url.partition(":")[0]
        seen.append(scheme + "+" * ("Authorization" in headers))
        if code and len(seen) < 2:
            raise urllib.error.HTTPError(url, code, "", Message(), None)
        return {"Docker-Content-Digest": "sha256:00"}

    monkeypatch.setattr(registry, "_ask", ask)
    refused = code and not host.startswith("127")
    with pytest.raises(SiteError) if refused else nullcontext():
        assert registry.manifest_digest(RegistryImage(host, "a", "1", None), Login("ada", "secret")) == "sha256:00"
    assert seen == asked


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (urllib.error.URLError(ssl.SSLCertVerificationError("x")), "is not signed by an authority"),
        (urllib.error.URLError("away"), "does not answer: away"),
        (TimeoutError("late"), "does not answer: late"),
    ],
)
def test_a_registry_that_is_not_reached_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", fail)
    with pytest.raises(SiteError, match=says):
        registry._ask("https://reg.example/v2/", {})


@pytest.mark.parametrize(("registered", "login"), [(True, True), (True, False), (False, True)])
def test_enroot_is_told_who_pulls_where_somebody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: bool, login: bool
) -> None:
    monkeypatch.setattr(registry, "_ask", lambda *_: {})
    image = RegistryImage("reg.example", "a", "1", None) if registered else None
    with credentials(tmp_path, image, Login("ada", "secret") if login else None) as variables:
        assert bool(variables) is (registered and login)
        if variables:
            assert stat.S_IMODE((tmp_path / "enroot").stat().st_mode) == 0o700
            assert stat.S_IMODE((tmp_path / "enroot/.credentials").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []


def test_the_packages_of_a_conda_file_are_its_dependencies() -> None:
    text = (
        "channels:\n- x\ndependencies:\nnote\n- a\n- pip:\n  - b==1\n- c=1\n- d=1.*\n- e>=2=x\n- F=1=b\n- pip:\n- g=1\n"
    )
    assert list(pins_of_conda(text)) == []
    text = text.replace("note\n", "\n# note\n  note\n")
    assert [(pin.name, pin.level, pin.from_pip) for pin in pins_of_conda(text)] == [
        ("a", "unpinned", False),
        ("b", "version", True),
        ("c", "version", False),
        ("d", "unpinned", False),
        ("e", "unpinned", False),
        ("f", "build", False),
        ("g", "version", False),
    ]


@pytest.mark.parametrize(
    ("words", "host", "name", "tag", "digest"),
    [
        ("localhost/a", "localhost", "a", "latest", None),
        ("a/b:1", "docker.io", "a/b", "1", None),
        (f"a@sha256:{'0' * 64}", "docker.io", "library/a", "latest", f"sha256:{'0' * 64}"),
        ("a:", None, None, None, None),
        ("a:-", None, None, None, None),
        ("a@", None, None, None, None),
        ("a@sha256:0", None, None, None, None),
    ],
)
def test_the_name_of_an_image_has_its_parts(
    words: str, host: str | None, name: str | None, tag: str | None, digest: str | None
) -> None:
    with nullcontext() if host else pytest.raises(RequestError, match="not the name of an image"):
        image = parse_source(f"docker://{words}").registry
        assert image is not None
        assert (image.host, image.name, image.tag, image.digest) == (host, name, tag, digest)


@pytest.mark.parametrize(
    ("text", "wheelhouse", "offline", "told"),
    [
        (None, None, False, ""),
        (None, "wheels", False, "--wheelhouse goes with --pip"),
        (None, None, True, "--offline needs a place"),
        ("a==1\n", "wheels", True, ""),
        ("a==1\nb\nc>=2\n", None, False, "may install other versions: b, c"),
    ],
)
def test_packages_are_named_firmly_and_a_wheelhouse_is_for_packages(
    tmp_path: Path, text: str | None, wheelhouse: str | None, offline: bool, told: str
) -> None:
    (tmp_path / "r.txt").write_text(text or "")
    (tmp_path / "wheels").mkdir()
    order = ImageOrder(
        output=tmp_path / "x.sif",
        requirements=None if text is None else tmp_path / "r.txt",
        wheelhouse=None if wheelhouse is None else tmp_path / wheelhouse,
        offline=offline,
    )
    said: list[str] = []
    with pytest.raises(RequestError, match=told) if told.startswith("--") else nullcontext():
        _judge_packages(order, said.append)
        assert [told in line for line in said] == [True] * bool(told)


@pytest.mark.parametrize(
    ("stderr", "error", "says"),
    [
        ("ERROR: No matching distribution found for x\n", RequestError, "no package index has"),
        (
            "WARNING: Retrying after connection broken by 'x'\nERROR: No matching distribution found for x\n",
            *(CommandFailed, "the package index was not reached"),
        ),
        ("WARNING: Retrying after connection broken by 'x'\nERROR: a\n", CommandFailed, "a"),
    ],
)
def test_an_index_that_was_not_reached_lacks_nothing(stderr: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        pip(Path("python"), ["install"], {}, lambda argv, **_: ProgramResult(tuple(argv), 1, "", stderr))


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ("docker://h/n:1", "Bootstrap: docker\nFrom: h/n:1\n"),
        ("oci-archive:/a.tar", "Bootstrap: oci-archive\nFrom: /a.tar\n"),
        ("oci", "Bootstrap: localimage\nFrom: oci\n"),
        ("/a:b.sif", "Bootstrap: localimage\nFrom: /a:b.sif\n"),
    ],
)
@pytest.mark.parametrize(
    ("order", "lines"),
    [
        ({}, []),
        ({"copies": [Copy("a", "/b")]}, ["%files", "    a /b"]),
        ({"requirements": "/r"}, ["%files", "    /r /opt/muster-build/requirements.txt", "%post", "    set -e"]),
        (
            {"requirements": "/r", "wheelhouse": "/w"},
            ["    /w /opt/muster-build/wheels", " --find-links ", "    rm -rf"],
        ),
        ({"requirements": "/r", "wheelhouse": "/w", "offline": True}, [" --no-index --find-links ", "    rm -rf"]),
        ({"definition": "Bootstrap: x\nFrom: y\n%post\n    true\n"}, ["%post", "    true"]),
    ],
)
def test_a_definition_has_what_is_asked_for_and_no_more(
    base: str, head: str, order: dict[str, Any], lines: list[str]
) -> None:
    text = compose(base, **order)
    assert text.startswith(head)
    rest = text.removeprefix(head)
    assert all(line in rest for line in lines)
    assert ("%files" in rest) is bool({"copies", "requirements"} & order.keys())
    assert ("--find-links" in rest, "rm -rf" in rest) == ("wheelhouse" in order,) * 2
    assert ("--no-index" in rest) is order.get("offline", False)
    assert ("%post" in rest) is bool({"definition", "requirements"} & order.keys())


@pytest.mark.parametrize("login", [None, ("reg.example", Login("ada", "secret"))])
def test_what_podman_keeps_and_knows_is_the_users_alone(tmp_path: Path, login: tuple[str, Login] | None) -> None:
    old_mask = os.umask(0)
    environment = _environment({"A": "1", "TMPDIR": "/t"}, tmp_path, login)
    os.umask(old_mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir() if path.name != "storage.conf"}
    assert modes == {**dict.fromkeys(("data", "run", "tmp"), 0o700), **({"auth.json": 0o600} if login else {})}
    assert (environment["A"], environment["TMPDIR"]) == ("1", str(tmp_path / "tmp"))
    assert ("REGISTRY_AUTH_FILE" in environment) is bool(login)
    if login:
        assert json.loads((tmp_path / "auth.json").read_text())["auths"].keys() == {"reg.example"}
