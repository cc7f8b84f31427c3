"""An archive holds what it was made of, is made once, and is never seen half-made."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import CommandFailed, RequestError
from muster.stage.pack import Packed, pack

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in {".", ".."} and len(name.encode()) < 200
)


def packed(source: Path, cache: Path, said: list[str] | None = None) -> Packed:
    return pack(source, cache, os.environ, (said if said is not None else []).append)


def unpacked(made: Packed, folder: Path) -> Path:
    folder.mkdir()
    program = ["--use-compress-program=zstd -d"] if made.compressed else []
    subprocess.run(["tar", "--extract", f"--file={made.archive}", *program, "-C", str(folder)], check=True)
    return folder / made.source.name


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(files=st.dictionaries(NAMES, st.binary(max_size=200), min_size=1, max_size=5))
def test_whatever_it_holds_comes_out_again(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("pack")
    source = folder / "-data $(x)"
    source.mkdir()
    for name, content in files.items():
        (source / name).write_bytes(content)
    out = unpacked(packed(source, folder / "cache"), folder / "out")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == files


def test_it_is_made_once_and_again_when_something_changes(tmp_path: Path) -> None:
    source = tmp_path / "data"
    (source / "deep").mkdir(parents=True)
    (source / "deep/a").write_text("1")
    said: list[str] = []
    first = packed(source, tmp_path / "cache", said)
    assert packed(source, tmp_path / "cache", said) == first
    (source / "deep/a").write_text("12")
    second = packed(source, tmp_path / "cache", said)
    assert second.key != first.key
    (source / "deep/a").chmod(0o700)
    assert packed(source, tmp_path / "cache", said).key != second.key
    assert said == [f"packing {source}"] * 3


def test_the_digest_is_the_archives(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    made = packed(tmp_path / "file", tmp_path / "cache")
    assert hashlib.sha256(made.archive.read_bytes()).hexdigest() == made.digest


def test_an_archive_without_its_digest_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    made = packed(tmp_path / "file", tmp_path / "cache")
    made.archive.write_bytes(b"half")
    made.archive.with_name(f"{made.archive.name}.sha256").unlink()
    assert packed(tmp_path / "file", tmp_path / "cache").digest == made.digest
    assert made.archive.read_bytes() != b"half"


def test_what_cannot_be_packed_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is not there"):
        packed(tmp_path / "none", tmp_path / "cache")
    (tmp_path / "file").write_text("content")
    program = tmp_path / "zstd"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{tmp_path}:{before}"
    try:
        with pytest.raises(CommandFailed):
            packed(tmp_path / "file", tmp_path / "cache")
    finally:
        os.environ["PATH"] = before
    assert list((tmp_path / "cache").iterdir()) == []
