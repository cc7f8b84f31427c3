"""Each condition of what is read and refused before and after a build, by the smallest input that it decides on."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from muster.errors import CommandFailed, RequestError, SiteError
from muster.runner import ProgramResult
from muster_build import commands, registry
from muster_build.archive import check_archive
from muster_build.commands import Means, look_for_means
from muster_build.definition import Copy, _instructions, parse_copy
from muster_build.draft import remove, swapped_in
from muster_build.engine import root_lacks_capabilities
from muster_build.lock import LockOrder, _target
from muster_build.pins import Pin, of_no_kind
from muster_build.pip import pip
from muster_build.podman import bases_of
from muster_build.registry import _refusal, _token, manifest_digest
from muster_build.source import RegistryImage, parse_source


@pytest.mark.parametrize(
    ("words", "copy"),
    [
        ("a:/b", Copy("a", "/b")),
        ("a:b:/c", Copy("a:b", "/c")),
        ("a:b", None),
        ("a:", None),
        (":/b", None),
        ("/b", None),
        ("a b:/c", None),
        ("a:/b c", None),
    ],
)
def test_what_is_copied_is_a_source_and_an_absolute_target(words: str, copy: Copy | None) -> None:
    with pytest.raises(RequestError) if copy is None else nullcontext():
        assert parse_copy(words) == copy


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed/file").touch()
    (folder / "closed").chmod(0)
    link.symlink_to(folder)
    remove(link)
    remove(tmp_path / "gone")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    remove(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["missing", "file", "folder", "link"])
@pytest.mark.parametrize("ends_well", [True, False])
def test_what_is_built_takes_its_place_only_if_the_build_ended_well(tmp_path: Path, kind: str, ends_well: bool) -> None:
    target = tmp_path / "made"
    if kind == "file":
        target.write_text("old")
    elif kind == "folder":
        target.mkdir()
        (target / "old").touch()
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir()
        target.symlink_to(tmp_path / "elsewhere")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    made_folder = kind == "folder"
    with nullcontext() if ends_well else pytest.raises(ZeroDivisionError), swapped_in(target) as place:
        if made_folder:
            place.mkdir()
            (place / "new").touch()
        else:
            place.write_text("new")
        assert ends_well or 1 / 0
    if ends_well:
        assert (target / "new").exists() if made_folder else target.read_text() == "new"
        assert not target.is_symlink()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
            {"made", *(["elsewhere"] if kind == "link" else [])}
        )
    else:
        assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("status", "last", "uid", "lacks"),
    [
        ("CapEff:\t000001ffffffffff\n", "40", 0, False),
        ("CapEff:\t000001fffffffffe\n", "40", 0, True),
        ("CapEff:\t0000000000000000\n", "40", 1000, False),
        ("nothing\n", "40", 0, False),
        ("CapEff:\t000001fffffffffe\n", "x", 0, False),
    ],
)
def test_root_lacks_powers_where_one_of_all_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, last: str, uid: int, lacks: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    (tmp_path / "status").write_text(status)
    (tmp_path / "last").write_text(last)
    assert root_lacks_capabilities(tmp_path / "status", tmp_path / "last") is lacks
    assert root_lacks_capabilities(tmp_path / "gone", tmp_path / "last") is False


@pytest.mark.parametrize(
    ("words", "stderr", "says", "hint"),
    [
        (
            ["install"],
            "ERROR: No matching distribution found for x\n",
            "no package index has, for this Python",
            "name and version",
        ),
        (
            ["install", "--no-index"],
            "ERROR: No matching distribution found for x\n",
            "the wheelhouse lacks x",
            "connected machine",
        ),
        (
            ["install", "--platform=a"],
            "ERROR: No matching distribution found for x\n",
            "no package index",
            "newer --glibc",
        ),
        (["install"], "note\nERROR: first\nERROR: second\n", "pip install: first", "proxies"),
        (["install"], "note\nanother\n", "pip install: note", "proxies"),
        (["install"], "", "pip install: it said nothing", "proxies"),
    ],
)
def test_what_pip_lacks_is_named(words: list[str], stderr: str, says: str, hint: str) -> None:
    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        return ProgramResult(tuple(argv), 1, "", stderr)

    with pytest.raises((RequestError, CommandFailed)) as refused:
        pip(Path("python"), words, {}, runner)
    assert says in str(refused.value)
    assert hint in (refused.value.hint or "")


def test_instructions_go_over_lines_and_comments_do_not_end_them() -> None:
    text = "# a\n\nFROM x\nRUN a \\\n\n  # b\n  b \\\n  c\n\nRUN d\n"
    assert [(number, instruction.split()) for number, instruction in _instructions(text)] == [
        (3, ["FROM", "x"]),
        (4, ["RUN", "a", "b", "c"]),
        (10, ["RUN", "d"]),
    ]
    assert [number for number, _ in _instructions("RUN a\n\nRUN b\n")] == [1, 3]


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("FROM a\n", ["a"]),
        ("FROM --platform=x a AS one\nFROM one\nFROM b\n", ["a", "b"]),
        ("FROM a is one\nFROM one\n", ["a", "one"]),
        ("FROM --platform=x\nFROM $A\nfrom scratch\nfrom a\nFROM a\n", ["a"]),
    ],
)
def test_the_bases_of_a_containerfile_are_images_of_registries(text: str, bases: list[str]) -> None:
    assert bases_of(text) == bases


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({}, []),
        ({"glibc": "2.17"}, [f"--platform=manylinux_2_17_{os.uname().machine}"]),
        ({"arch": "aarch64", "glibc": "2.17"}, ["--platform=manylinux_2_17_aarch64", "--platform=linux_aarch64"]),
        (
            {"python_version": "3.11"},
            ["--python-version=3.11", "--implementation=cp", f"--platform=linux_{os.uname().machine}"],
        ),
    ],
)
def test_a_lock_for_another_machine_names_all_that_it_takes(
    tmp_path: Path, order: dict[str, str], words: list[str]
) -> None:
    made = list(_target(LockOrder(requirements=tmp_path, **order)))  # type: ignore[arg-type]
    assert set(words) <= set(made)
    assert bool(made) == bool(words)
    assert ("--python-version=3.11" in made) is ("python_version" in order)
    assert not any("_2_4_" in word for word in made)
    assert not words or any("_2_5_" in word for word in made)


@pytest.mark.parametrize("glibc", ["2.16", "3.17", "2.x", "2"])
def test_a_c_library_older_than_any_wheel_is_refused(tmp_path: Path, glibc: str) -> None:
    with pytest.raises(RequestError, match=r"2\.17 or newer"):
        list(_target(LockOrder(requirements=tmp_path, arch="x86_64", glibc=glibc)))
    with pytest.raises(RequestError, match=r"2\.17 or newer"):
        list(_target(LockOrder(requirements=tmp_path, glibc=glibc)))
    with pytest.raises(RequestError, match="--arch sparc: no wheels are made for it"):
        list(_target(LockOrder(requirements=tmp_path, arch="sparc")))


def test_an_archive_is_read_if_its_form_is_known(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    with pytest.raises(RequestError, match="is not there"):
        check_archive("docker-archive", file)
    with tarfile.open(file, "w"):
        pass
    with pytest.raises(RequestError, match="it has no manifest"):
        check_archive("docker-archive", file)
    check_archive("oci", file)
    check_archive("oci-archive", tmp_path)
    file.write_bytes(b"\x1f\x8b packed")
    check_archive("docker-archive", file)
    file.write_bytes(b"no archive")
    with pytest.raises(RequestError, match="cannot be read"):
        check_archive("docker-archive", file)


@pytest.mark.parametrize(
    ("text", "from_pip", "count"),
    [
        ("torch==2.9\n", True, 1),
        ("--index-url https://x/whl/rocm6.4\ntorch==2.9\n", True, 0),
        ("--find-links https://x/whl/rocm6.4\ntorch==2.9\n", True, 0),
        ("--find-links https://x/whl/rocm6.4\ntorch==2.9\n", False, 1),
        ("# rocm6.4\ntorch==2.9\n", True, 1),
    ],
)
def test_a_package_of_no_kind_of_gpu_is_known_by_the_index_of_its_file(text: str, from_pip: bool, count: int) -> None:
    pins = [
        Pin(name, "exact", words, from_pip=from_pip) for name, words in (("torch", "torch==2.9"), ("numpy", "numpy==2"))
    ]
    assert len(of_no_kind(pins, text, "rocm")) == count
    assert of_no_kind([Pin("torch", "exact", "torch==2.9+rocm6.4", from_pip=False)], "", "rocm") == []


@pytest.mark.parametrize(
    ("words", "is_one"), [("a b.sif", True), ("a\x1fb.sif", False), (" ", False), ("", False), ("a\tb", False)]
)
def test_a_source_has_no_control_characters(words: str, is_one: bool) -> None:
    with nullcontext() if is_one else pytest.raises(RequestError, match="names no image"):
        parse_source(words)


_IMAGE = RegistryImage("reg.example", "a/b", "1", None)


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (401, RequestError, "only to those who log in"),
        (403, RequestError, "only to those who log in"),
        (404, RequestError, "has no image reg.example/a/b:1"),
        (429, SiteError, "too many pulls"),
        (500, SiteError, "answered 500"),
    ],
)
def test_a_refusal_of_a_registry_is_said_in_words(status: int, error: type, says: str) -> None:
    refusal = _refusal(_IMAGE, None, status)
    assert isinstance(refusal, error)
    assert says in str(refusal)


@pytest.mark.parametrize("digest", [None, "", "md5:0", "sha256:00"])
def test_a_registry_that_tells_no_digest_is_none(monkeypatch: pytest.MonkeyPatch, digest: str | None) -> None:
    monkeypatch.setattr(registry, "_answer", lambda *_, **__: {"Docker-Content-Digest": digest})
    with nullcontext() if digest == "sha256:00" else pytest.raises(SiteError, match="does not say which image"):
        assert manifest_digest(_IMAGE, None) == digest
    assert manifest_digest(RegistryImage("h", "n", "t", "sha256:11"), None) == "sha256:11"


@pytest.mark.parametrize(
    ("answer", "token"), [({"token": "a", "access_token": "b"}, "a"), ({"access_token": "b"}, "b")]
)
def test_a_token_has_one_of_two_names(monkeypatch: pytest.MonkeyPatch, answer: dict[str, str], token: str) -> None:
    monkeypatch.setattr(registry, "_ask", lambda *_, **__: answer)
    assert _token('Bearer realm="https://auth.example/token",service="s"', None) == token
    with pytest.raises(SiteError, match="without https"):
        _token('Bearer realm="http://auth.example/token"', None)


def test_the_means_of_a_user_are_what_this_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(commands, "_has_subordinate_ids", lambda _: True)
    monkeypatch.setattr(commands, "run", lambda argv, **_: ProgramResult(tuple(argv), 1, "", ""))

    def look(version: str = "apptainer 1.3") -> Means:
        return look_for_means({"PATH": str(tmp_path)}, version=version, lacks_capabilities=False)

    assert look() == Means(uid=1000, namespaces=False)
    for name in ("newuidmap", "fakeroot", "proot"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert look("singularity-ce 4") == Means(
        uid=1000, namespaces=False, subordinate_ids=True, fakeroot=True, proot=True, is_singularity_ce=True
    )
    monkeypatch.setattr(commands, "_has_subordinate_ids", lambda _: False)
    assert not look().subordinate_ids
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert look() == Means(uid=0)
