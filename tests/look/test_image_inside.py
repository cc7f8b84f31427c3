"""What is seen inside an image: a .sif with a real squashfs in it, sandboxes, virtual environments, projects."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from muster.look.image_facts import _look_at_venv, _project_of, _Sandbox, look_at_path

SAMPLES = Path(__file__).resolve().parents[1] / "samples/squashfs"
_PARTITION, _OTHER, _SQUASHFS, _EXT3, _PRIMARY, _OVERLAY = 0x4004, 0x4002, 1, 2, 2, 4


def _part(kind: int, used: bool, system: int, role: int, offset: int) -> bytes:
    """One descriptor of the format: kind, use, id, group, link, place and size; from byte 201 what it holds."""
    head = struct.pack("<i?IIIqq", kind, used, 1, 1, 0, offset, 0)
    return (head.ljust(201, b"\0") + struct.pack("<ii", system, role)).ljust(585, b"\0")


def _sif(
    folder: Path, parts: Sequence[tuple[int, bool, int, int]], *, count: int | None = None, at: int = 128, cut: int = 0
) -> Path:
    """A .sif of so many parts, each with the same place; behind these lies the squashfs."""
    begin = 128 + 585 * len(parts)
    image = (SAMPLES / "gzip.sqsh").read_bytes()
    head = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + b"02\0"
    sizes = struct.pack("<qqqqq", len(parts) if count is None else count, at, 0, begin, len(image))
    whole = head.ljust(88, b"\0") + sizes + b"".join(_part(*part, begin) for part in parts) + image
    (folder / "x.sif").write_bytes(whole[: len(whole) - cut])
    return folder / "x.sif"


_MAIN = (_PARTITION, True, _SQUASHFS, _PRIMARY)


@pytest.mark.parametrize(
    ("parts", "is_seen"),
    [
        ([_MAIN], True),
        ([(_OTHER, True, _SQUASHFS, _PRIMARY), _MAIN], True),
        ([(_PARTITION, True, _EXT3, _OVERLAY), _MAIN], True),
        ([(_PARTITION, False, _SQUASHFS, _PRIMARY)], False),
        ([(_OTHER, True, _SQUASHFS, _PRIMARY)], False),
        ([(_PARTITION, True, _EXT3, _PRIMARY)], False),
        ([(_PARTITION, True, _SQUASHFS, _OVERLAY)], False),
        ([], False),
    ],
)
def test_the_root_of_a_sif_is_its_primary_squashfs(
    tmp_path: Path, parts: list[tuple[int, bool, int, int]], is_seen: bool
) -> None:
    facts = look_at_path(_sif(tmp_path, parts))

    assert (facts.kind, facts.arch, facts.broken, facts.looked_inside) == ("sif", "x86_64", None, is_seen)


@pytest.mark.parametrize(
    ("words", "is_broken"),
    [
        ({"cut": 1}, True),
        ({"count": -1}, False),
        ({"count": 1025}, False),
        ({"at": -1}, False),
        ({"at": 1 << 40}, False),
    ],
)
def test_a_sif_with_numbers_that_cannot_be_is_not_looked_into(
    tmp_path: Path, words: dict[str, int], is_broken: bool
) -> None:
    facts = look_at_path(_sif(tmp_path, [_MAIN], **words))

    assert (facts.broken is not None, facts.looked_inside) == (is_broken, False)


def test_a_squashfs_alone_is_looked_into() -> None:
    seen, unseen = (look_at_path(SAMPLES / f"{name}.sqsh") for name in ("gzip", "zstd"))

    assert (seen.kind, seen.looked_inside, seen.has_sh) == ("squashfs", True, False)
    assert (unseen.kind, unseen.looked_inside, unseen.has_sh) == ("squashfs", False, None)


def _elf(machine: int, order: int = 1, length: int = 20) -> bytes:
    sign = "<H" if order == 1 else ">H"
    return (b"\x7fELF" + bytes([2, order]) + bytes(12) + struct.pack(sign, machine))[:length]


@pytest.mark.parametrize(
    ("programs", "arch"),
    [
        ({"sh": _elf(62)}, "x86_64"),
        ({"sh": _elf(183)}, "aarch64"),
        ({"sh": _elf(62, 2)}, "x86_64"),
        ({"sh": _elf(7)}, None),
        ({"sh": _elf(62, length=19)}, None),
        ({"sh": b"\x7fBAD" + _elf(62)[4:]}, None),
        ({"sh": b"#!/bin/bash and more words\n"}, None),
        ({"sh": b"#!/bin/bash and more words\n", "cat": _elf(183)}, "aarch64"),
        ({}, None),
    ],
)
def test_the_architecture_of_a_sandbox_is_that_of_its_programs(
    tmp_path: Path, programs: dict[str, bytes], arch: str | None
) -> None:
    (tmp_path / "bin").mkdir()
    for name, content in programs.items():
        (tmp_path / "bin" / name).write_bytes(content)
    facts = look_at_path(tmp_path)

    assert (facts.kind, facts.arch, facts.has_sh) == ("sandbox", arch, "sh" in programs)


@pytest.mark.parametrize(
    ("names", "top"),
    [(("a/muster.toml",), "a"), (("a/.git/",), "a"), (("a/b/.git",), "a/b"), (("a/b/muster.toml/", "muster.toml"), "")],
)
def test_the_top_of_a_project_is_the_nearest(tmp_path: Path, names: tuple[str, ...], top: str) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for name in names:
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()

    assert _project_of(tmp_path / "a/b") == tmp_path / top


def _venv(folder: Path, base: str | None, version: str | None = "3.11.2") -> Path:
    folder.mkdir(parents=True)
    lines = [f"home = {base}"] * (base is not None) + [f"version = {version}"] * (version is not None)
    (folder / "pyvenv.cfg").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_a_virtual_environment_that_only_the_image_has_is_in_the_image(tmp_path: Path) -> None:
    box = tmp_path / "box"
    (box / "opt/venv/bin").mkdir(parents=True)
    (box / "opt/venv/bin/python").touch()
    tree = _Sandbox(box)

    assert _look_at_venv(None, tree) is None
    for folder, seen_tree, is_inside in (
        ("/opt/venv", tree, True),
        ("/opt/none", tree, False),
        ("/opt/venv", None, False),
    ):
        facts = _look_at_venv(folder, seen_tree)
        assert facts is not None
        assert (facts.in_image, facts.version, facts.base) == (is_inside, None, None)
