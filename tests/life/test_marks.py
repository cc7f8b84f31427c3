"""Marks and caches in /tmp: what somebody else made there is none, and nothing of ours stays."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from launch.shells import each_shell
from muster.errors import RequestError
from muster.render.parts import compose
from muster_build.engine import find_builder
from plugins.patience import patient

OTHER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="by design: only root acts as somebody else")
_PARTS = ["stop", "once_per_node"]


@pytest.fixture
def start() -> Iterator[str]:
    """The name of a start that nobody had before; its marks are cleared away."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    for path in _marks(name):
        path.unlink() if path.is_symlink() or path.is_file() else rmtree(path)


def _ranks(shell: tuple[str, ...], start: str, status: int, count: int = 3) -> list[subprocess.Popen[str]]:
    text = compose(_PARTS) + f"\nmuster_node_prologue sh -c 'sleep 0.2; exit {status}'\necho started"
    known = {"muster_id": start, "muster_port": "1", "muster_local_size": str(count), "PATH": os.environ["PATH"]}
    return [
        subprocess.Popen(
            [*shell, "-c", text],
            env={**known, "muster_local_rank": str(rank)},
            stdout=-1,
            stderr=-1,
            text=True,
        )
        for rank in range(count)
    ]


def _ends(ranks: list[subprocess.Popen[str]]) -> list[tuple[str, int]]:
    return [(rank.communicate(timeout=patient(20))[0].strip(), rank.returncode) for rank in ranks]


def _marks(start: str) -> list[Path]:
    return sorted(Path("/tmp").glob(f".muster-{start}-*"))


@each_shell
def test_all_ranks_go_on_and_the_mark_is_removed(shell: tuple[str, ...], start: str) -> None:
    assert _ends(_ranks(shell, start, 0)) == [("started", 0)] * 3
    assert _marks(start) == []


@each_shell
def test_a_failure_ends_all_of_them_and_the_mark_is_removed(shell: tuple[str, ...], start: str) -> None:
    assert _ends(_ranks(shell, start, 5)) == [("", 2)] * 3
    assert _marks(start) == []


@needs_root
@each_shell
@pytest.mark.parametrize("how", ["directory", "link", "file of old"])
def test_a_mark_that_somebody_else_made_is_none(shell: tuple[str, ...], start: str, how: str, tmp_path: Path) -> None:
    """Made beforehand, with a status of 0: the ranks started although the prologue had failed."""
    foreign = Path(f"/tmp/.muster-{start}-1{'' if how == 'file of old' else '.0'}")
    if how == "directory":
        foreign.mkdir()
        (foreign / "status").write_text("0\n")
        os.chown(foreign, OTHER, OTHER)
    elif how == "link":
        (tmp_path / "status").write_text("0\n")
        foreign.symlink_to(tmp_path)
        os.chown(foreign, OTHER, OTHER, follow_symlinks=False)
    else:
        foreign.write_text("0\n")

    assert _ends(_ranks(shell, start, 5)) == [("", 2)] * 3
    assert _marks(start) == [foreign]
    assert how != "link" or [path.name for path in tmp_path.iterdir()] == ["status"]


def _image_prologue(start: str, tmp: Path, rank: int) -> subprocess.Popen[str]:
    """A rank that waits for the image that another unpacks."""
    text = (
        compose(["stop", "image_unpack"])
        + '\nmuster_image_unpack apptainer APPTAINER image.sif\necho "$muster_unpacked"'
    )
    known = {
        "MUSTER_JOB": start,
        "muster_port": "1",
        "muster_here": "node1",
        "TMPDIR": str(tmp),
        "MUSTER_RUN_DIR": str(tmp),
    }
    environment = {**known, "muster_rank": str(rank), "muster_local_rank": str(rank), "PATH": os.environ["PATH"]}
    return subprocess.Popen(["sh", "-c", text], env=environment, stdout=-1, stderr=-1, text=True)


@needs_root
def test_an_image_that_somebody_else_unpacked_is_none(start: str, tmp_path: Path) -> None:
    foreign = tmp_path / f".muster-image-{start}.1.node1"
    foreign.mkdir()
    (foreign / "status").write_text("0\n")
    os.chown(foreign, OTHER, OTHER)

    first, second = _image_prologue(start, tmp_path, 0), _image_prologue(start, tmp_path, 1)
    try:
        assert "cannot be made" in first.communicate(timeout=patient(20))[1]
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(0.5)  # the launcher ends it: the first rank of its node has failed
    finally:
        second.kill()
        second.communicate()


def _as_another(path: Path) -> None:
    os.chown(path, OTHER, OTHER)


def _open_to_all(path: Path) -> None:
    path.chmod(0o777)


def _a_link(path: Path) -> None:
    path.rmdir()
    path.symlink_to(path.parent)


@pytest.mark.parametrize("harm", [pytest.param(_as_another, marks=needs_root), _open_to_all, _a_link])
def test_a_cache_of_builds_that_is_not_mine_alone_is_refused(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    (tmp_path / "apptainer").write_text("")
    (tmp_path / "apptainer").chmod(0o755)
    environment = {"PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    node = tmp_path / f"muster-{os.getuid()}"

    assert find_builder(environment, None, os.getuid(), names=("apptainer",)).cache == node / "apptainer"
    assert node.stat().st_mode & 0o777 == 0o700
    harm(node)

    with pytest.raises(RequestError, match="can be written by other users"):
        find_builder(environment, None, os.getuid(), names=("apptainer",))
