"""Reads single files out of squashfs images that mksquashfs of squashfs-tools 4.6 made of one small tree.

The tree of gzip.sqsh and xz.sqsh (blocks of 4096 bytes): etc/os-release, links beside it (relative, absolute, loop),
lib → /usr/lib, and in usr/lib: real, second (the same file), libx.so.1, long (two blocks and a tail), noise (a block
that does not pack), holes (two blocks of nothing, then `end`), pipe (a fifo); an empty folder, many/ with 401 files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.look.squashfs import CannotBeRead, SquashFs

SAMPLES = Path(__file__).resolve().parents[1] / "samples/squashfs"
_LONG = b"".join(b"%07d\n" % number for number in range(1200))


@pytest.fixture(params=["gzip", "xz"])
def image(request: pytest.FixtureRequest) -> SquashFs:
    return SquashFs(SAMPLES / f"{request.param}.sqsh")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("etc/os-release", b"ID=made\n"),
        ("/etc//os-release", b"ID=made\n"),
        ("etc/./os-release", b"ID=made\n"),
        ("etc/../etc/os-release", b"ID=made\n"),
        ("../../etc/os-release", b"ID=made\n"),
        ("usr/lib/../../etc/os-release", b"ID=made\n"),
        ("etc/relative", b"real"),
        ("etc/absolute", b"real"),
        ("lib/real", b"real"),
        ("lib/../lib/real", b"real"),
        ("lib/second", b"real"),
        ("lib/libx.so.1", b"x"),
        ("lib/long", _LONG),
        ("lib/holes", b"\0" * 8192 + b"end"),
        ("many/399-last", b"last"),
        ("many/000-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", b""),
    ],
)
def test_a_file_is_read_by_its_path(image: SquashFs, path: str, content: bytes) -> None:
    assert image.has(path)
    assert image.read(path) == content


@pytest.mark.parametrize("path", ["etc/none", "etc/loop", "etc/os-release/below", "none/real", "empty/real"])
def test_a_path_that_is_not_there_is_not_there(image: SquashFs, path: str) -> None:
    assert not image.has(path)
    assert image.read(path) == b""


@pytest.mark.parametrize("path", ["", "etc", "lib", "empty", "lib/pipe", "usr/lib/pipe"])
def test_a_folder_and_a_pipe_are_there_and_hold_no_bytes(image: SquashFs, path: str) -> None:
    assert image.has(path)
    assert image.read(path) == b""


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 8192, 8193, 9599, 9600, 9601])
def test_no_more_bytes_are_read_than_were_asked_for(image: SquashFs, count: int) -> None:
    assert image.read("usr/lib/long", count) == _LONG[:count]


def test_a_block_that_does_not_pack_lies_as_it_is(image: SquashFs) -> None:
    noise = image.read("usr/lib/noise")

    assert len(noise) == 4096
    assert noise[:4] == bytes.fromhex("4420823c")


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("usr/lib/lib*.so.*", ["usr/lib/libx.so.1"]),
        ("lib/lib*.so.?", ["lib/libx.so.1"]),
        ("/etc/*", ["etc/absolute", "etc/os-release", "etc/relative"]),
        ("*/os-release", ["etc/os-release"]),
        ("*", ["empty", "etc", "lib", "many", "usr"]),
        ("empty/*", []),
        ("etc/os-release/*", []),
        ("none/*", []),
        ("many/*last", ["many/399-last"]),
    ],
)
def test_a_pattern_yields_what_is_there_in_order(image: SquashFs, pattern: str, paths: list[str]) -> None:
    assert list(image.glob(pattern)) == paths


def test_every_name_of_a_long_folder_is_listed(image: SquashFs) -> None:
    assert len(list(image.glob("many/*"))) == 401


def test_an_image_may_begin_within_a_file_as_in_a_sif(tmp_path: Path) -> None:
    place = tmp_path / "image.sif"
    place.write_bytes(b"x" * 4096 + (SAMPLES / "gzip.sqsh").read_bytes())

    assert SquashFs(place, 4096).read("lib/long") == _LONG


def test_what_is_not_packed_at_all_is_read_too() -> None:
    assert SquashFs(SAMPLES / "plain.sqsh").read("etc/os-release") == b"ID=made\n"


def test_a_packing_that_python_does_not_unpack_cannot_be_read() -> None:
    with pytest.raises(CannotBeRead, match="packed in a way"):
        SquashFs(SAMPLES / "zstd.sqsh").read("etc/os-release")


@pytest.mark.parametrize(
    ("place", "patch", "sentence"),
    [
        (0, b"sqsh", "holds no squashfs"),
        (12, (2048).to_bytes(4, "little"), "blocks are of no size"),
        (12, (1 << 21).to_bytes(4, "little"), "blocks are of no size"),
        (64, (1 << 40).to_bytes(8, "little"), "shorter than it says"),
        (64, (2**64 - 1).to_bytes(8, "little"), "."),
    ],
)
def test_a_damaged_head_is_an_error_of_its_own(tmp_path: Path, place: int, patch: bytes, sentence: str) -> None:
    content = bytearray((SAMPLES / "plain.sqsh").read_bytes())
    content[place : place + len(patch)] = patch
    (tmp_path / "x.sqsh").write_bytes(content)

    with pytest.raises(CannotBeRead, match=sentence):
        SquashFs(tmp_path / "x.sqsh").read("etc/os-release")


@pytest.mark.parametrize("name", ["gzip", "xz", "plain"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_an_image_that_was_cut_off_or_damaged_gives_its_error_and_no_other(
    tmp_path: Path, name: str, share: float
) -> None:
    whole = (SAMPLES / f"{name}.sqsh").read_bytes()
    place = int(len(whole) * share)
    for content in (whole[:place], whole[:place] + bytes(16) + whole[place + 16 :]):
        (tmp_path / "x.sqsh").write_bytes(content)
        try:
            said = SquashFs(tmp_path / "x.sqsh").read("etc/os-release")
        except CannotBeRead:
            continue
        assert said in {b"ID=made\n", b""} or len(said) == 8
