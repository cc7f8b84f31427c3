"""An archive holds what it was made of, is made once, and is never seen half-made."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import CommandFailed, RequestError
from muster.model.plan import Reason, Staged
from muster.stage import pack as module
from muster.stage.pack import Packed, pack, place

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in {".", ".."} and len(name.encode()) < 200
)


def whole(made: Packed) -> bytes:
    """The archive's chunks together, each of them verified."""
    listed = (made.folder / made.key / "chunks").read_text()
    assert hashlib.sha256(listed.encode()).hexdigest() == made.digest
    content = b""
    for line in listed.splitlines():
        digest, name = line.split()
        chunk = (made.folder / made.key / name).read_bytes()
        assert hashlib.sha256(chunk).hexdigest() == digest
        content += chunk
    return content


def unpacked(made: Packed, folder: Path) -> Path:
    folder.mkdir()
    program = ["--use-compress-program=zstd -d"] if made.kind == "tree.zst" else []
    subprocess.run(["tar", "--extract", *program, "-C", str(folder)], input=whole(made), check=True)
    return folder


def below(folder: Path, path: Path) -> Path:
    return folder / path.relative_to("/")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(files=st.dictionaries(NAMES, st.binary(max_size=200), min_size=1, max_size=5))
def test_whatever_it_holds_comes_out_again(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("pack")
    source = folder / "-data $(x)"
    source.mkdir()
    for name, content in files.items():
        (source / name).write_bytes(content)
    out = below(unpacked(pack([source], folder / "kept"), folder / "out"), source)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == files


def test_it_is_made_once_and_again_when_something_changes(tmp_path: Path) -> None:
    source = tmp_path / "data"
    (source / "deep").mkdir(parents=True)
    (source / "deep/a").write_text("1")
    first = pack([source], tmp_path / "kept")
    again = pack([source], tmp_path / "kept")
    assert (first.made_now, again.made_now, again.digest) == (True, False, first.digest)
    (source / "deep/a").write_text("12")
    second = pack([source], tmp_path / "kept")
    assert second.key != first.key
    (source / "deep/a").chmod(0o700)
    assert pack([source], tmp_path / "kept").key != second.key


def test_several_paths_are_one_archive_and_some_are_left_out(tmp_path: Path) -> None:
    for name in ("env/keep", "env/envs/other", "base/lib"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(name)
    sources, left = [tmp_path / "env", tmp_path / "base"], [str(tmp_path / "env/envs")]
    made = pack(sources, tmp_path / "kept", leave_out=left)
    out = unpacked(made, tmp_path / "out")
    assert below(out, tmp_path / "env/keep/file").read_text() == "env/keep"
    assert below(out, tmp_path / "base/lib/file").read_text() == "base/lib"
    assert not below(out, tmp_path / "env/envs").exists()
    (tmp_path / "env/envs/other/file").write_text("changed")
    assert pack(sources, tmp_path / "kept", leave_out=left).key == made.key


def test_a_single_file_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_bytes(os.urandom(1 << 16))
    made = pack([tmp_path / "image.sif"], tmp_path / "kept")
    assert made.kind == "file"
    assert whole(made) == (tmp_path / "image.sif").read_bytes()


def test_what_is_large_comes_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1 << 14)
    (tmp_path / "data").write_bytes(os.urandom(100_000))
    made = pack([tmp_path / "data"], tmp_path / "kept")
    assert made.count == 7
    assert whole(made) == (tmp_path / "data").read_bytes()


def test_an_archive_without_its_list_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    made = pack([tmp_path / "file"], tmp_path / "kept")
    (made.folder / made.key / "000000").write_bytes(b"half")
    (made.folder / made.key / "chunks").unlink()
    assert whole(pack([tmp_path / "file"], tmp_path / "kept")) == b"content"


def test_the_latest_one_is_named_and_the_others_are_removed(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    (source / "a").write_text("1")
    thing = Staged("data", "data", (str(source),), str(tmp_path / "kept"), (), Reason("x"))
    said: list[str] = []
    first = place(thing, said.append)
    (source / "b").write_text("2")
    second = place(thing, said.append)
    key, kind, count, digest, _ = (tmp_path / "kept/latest").read_text().split("\t")
    assert (key, kind, int(count), digest) == (second.key, second.kind, second.count, second.digest)
    assert not (tmp_path / "kept" / first.key).exists()
    assert [text.partition(":")[0] for text in said] == ["packed data"] * 2


@pytest.mark.parametrize("words", [["exit 1"], ["cat >/dev/null", "exit 1"]])
def test_what_cannot_be_packed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    with pytest.raises(RequestError, match="is not there"):
        pack([tmp_path / "none"], tmp_path / "kept")
    (tmp_path / "data").mkdir()
    program = tmp_path / "zstd"
    program.write_text("\n".join(["#!/bin/sh", *words]))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CommandFailed):
        pack([tmp_path / "data"], tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


def test_what_changes_while_it_is_packed_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "data"
    source.mkdir()
    (source / "a").write_text("1")
    program = tmp_path / "zstd"
    program.write_text(f"#!/bin/sh\necho 2 >{source}/b\ncat\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(RequestError, match="changed while it was packed"):
        pack([source], tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("status", [1, 2])
def test_a_file_that_got_another_link_meanwhile_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "tar").write_text(f'#!/bin/sh\n/bin/tar "$@"\nexit {status}\n')
    (tmp_path / "tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if status == 1:
        assert pack([tmp_path / "data"], tmp_path / "kept").made_now
    else:
        with pytest.raises(CommandFailed):
            pack([tmp_path / "data"], tmp_path / "kept")


def test_a_long_packing_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_bytes(b"a")
    thing = Staged("data", "data", (str(tmp_path / "data"),), str(tmp_path / "cache"), (), Reason("set by you"))
    says: list[str] = []
    heard = threading.Event()
    monkeypatch.setattr(module, "SILENT_S", 0.001)
    monkeypatch.setattr(
        module, "pack", lambda *_, **__: heard.wait(60) and pack([tmp_path / "data"], tmp_path / "cache")
    )

    def say(text: str) -> None:
        says.append(text)
        heard.set()

    place(thing, say)
    assert says[0] == "packing data: 0 MB are written"
    assert says[-1].startswith("packed data: ")


def test_a_link_that_leads_nowhere_is_packed_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    (source / "link").symlink_to("gone")
    (source / "self").symlink_to(".")
    out = below(unpacked(pack([source], tmp_path / "kept"), tmp_path / "out"), source)
    assert ((out / "link").readlink(), (out / "self").readlink()) == (Path("gone"), Path())
