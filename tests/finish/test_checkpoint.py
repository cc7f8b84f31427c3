"""Which checkpoint is the newest whole one: real files, cut at every length that there is."""

from __future__ import annotations

import json
import os
import struct
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.rank.checkpoint import find_checkpoints, newest_whole
from muster.render.parts import part
from muster.runner import checked, run


def _age(path: Path, seconds: int) -> None:
    for each in [path, *path.rglob("*")] if path.is_dir() else [path]:
        os.utime(each, (1_700_000_000 - seconds,) * 2)


def _zipped(path: Path) -> None:
    """As torch.save lays it down: an archive of stored members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", b"pickle" * 20)
        archive.writestr("archive/data/0", bytes(range(256)))
        archive.writestr("archive/version", "3\n")


def _safetensors(path: Path) -> None:
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [16], "data_offsets": [0, 64]}, "__metadata__": {"a": "b"}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))


def _cut_everywhere(path: Path, is_whole: Callable[[], bool], *, step: int = 1) -> None:
    whole = path.read_bytes()
    assert is_whole()
    for length in range(0, len(whole), step):
        path.write_bytes(whole[:length])
        assert not is_whole(), f"{path.name} cut to {length} of {len(whole)} bytes"
    path.write_bytes(whole)
    assert is_whole()


@pytest.mark.parametrize(
    ("name", "write"), [("a.pt", _zipped), ("last.ckpt", _zipped), ("model.safetensors", _safetensors)]
)
def test_a_file_is_whole_or_it_is_not(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    file = tmp_path / name
    write(file)
    _cut_everywhere(file, lambda: newest_whole(str(tmp_path)) == str(file))


def test_the_newest_whole_one_is_named_and_half_ones_are_passed_over(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        _zipped(tmp_path / f"step{number}.pt")
        _age(tmp_path / f"step{number}.pt", 10 - number)
    assert newest_whole(str(tmp_path)) == str(tmp_path / "step3.pt")

    newest = tmp_path / "step3.pt"
    newest.write_bytes(newest.read_bytes()[:-1])
    (tmp_path / "step4.pt.tmp").write_bytes(b"PK")
    (tmp_path / "latest.pt").symlink_to("step3.pt")
    assert newest_whole(str(tmp_path)) == str(tmp_path / "step2.pt")
    half = find_checkpoints(str(tmp_path))[0]
    assert (half.path, half.fault) == (str(newest), "step3.pt: its end is missing")


def test_an_archive_inside_a_tensor_is_no_end(tmp_path: Path) -> None:
    inner = tmp_path / "inner.zip"
    _zipped(inner)
    file = tmp_path / "a.pt"
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(inner, "archive/data/0")
        archive.writestr("archive/data.pkl", bytes(500))
    inner.unlink()
    _cut_everywhere(file, lambda: newest_whole(str(tmp_path)) == str(file))


def _trainer(folder: Path) -> None:
    folder.mkdir()
    _safetensors(folder / "model-00001-of-00002.safetensors")
    _safetensors(folder / "model-00002-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    for name in ("optimizer.pt", "scheduler.pt", "training_args.bin"):
        _zipped(folder / name)
    (folder / "config.json").write_text("{}")
    (folder / "trainer_state.json").write_text('{"global_step": 10}')


@pytest.mark.parametrize(
    "missing",
    ["model-00002-of-00002.safetensors", "optimizer.pt", "trainer_state.json", "scheduler.pt"],
)
def test_a_folder_of_a_trainer_needs_all_that_the_one_before_has(tmp_path: Path, missing: str) -> None:
    for number in (5, 10):
        _trainer(tmp_path / f"checkpoint-{number}")
        _age(tmp_path / f"checkpoint-{number}", 20 - number)
    assert newest_whole(str(tmp_path)) == str(tmp_path / "checkpoint-10")

    (tmp_path / "checkpoint-10" / missing).unlink()
    _age(tmp_path / "checkpoint-10", 10)
    assert newest_whole(str(tmp_path)) == str(tmp_path / "checkpoint-5")
    assert missing in find_checkpoints(str(tmp_path))[0].fault


def test_the_index_cut_anywhere_makes_the_folder_half(tmp_path: Path) -> None:
    _trainer(tmp_path / "checkpoint-5")
    index = tmp_path / "checkpoint-5" / "model.safetensors.index.json"
    _cut_everywhere(index, lambda: newest_whole(str(tmp_path)) is not None)


def test_deepspeed_names_the_last_one_in_latest(tmp_path: Path) -> None:
    for number in (10, 20):
        folder = tmp_path / f"global_step{number}"
        folder.mkdir()
        for name in ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"):
            _zipped(folder / name)
        _age(folder, 40 - number)
    (tmp_path / "latest").write_text("global_step10")
    assert newest_whole(str(tmp_path)) == str(tmp_path / "global_step10")
    (tmp_path / "latest").write_text("global_step20\n")
    assert newest_whole(str(tmp_path)) == str(tmp_path / "global_step20")

    (tmp_path / "global_step20" / "zero_pp_rank_0_mp_rank_00_optim_states.pt").write_bytes(b"PK\x03\x04")
    assert newest_whole(str(tmp_path)) == str(tmp_path / "global_step10")


def test_fewer_ranks_write_fewer_files(tmp_path: Path) -> None:
    for number, ranks in ((1, 4), (2, 2), (3, 2)):
        folder = tmp_path / f"step-{number}"
        folder.mkdir()
        for rank in range(ranks):
            _zipped(folder / f"rng_state_{rank}.pt")
        _age(folder, 10 - number)
        if number == 2:  # it may be that two ranks have not written yet
            assert newest_whole(str(tmp_path)) == str(tmp_path / "step-1")
    assert newest_whole(str(tmp_path)) == str(tmp_path / "step-3")


def test_nothing_is_no_checkpoint(tmp_path: Path) -> None:
    assert newest_whole(str(tmp_path / "none")) is None
    assert newest_whole(str(tmp_path)) is None
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "checkpoint-3").mkdir()
    assert newest_whole(str(tmp_path)) is None


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_torch_itself_saves(tmp_path: Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    model = torch.nn.Linear(16, 16)
    saved = tmp_path / "saved"
    saved.mkdir()
    torch.save({"model": model.state_dict(), "step": 3}, saved / "a.pt")
    _cut_everywhere(saved / "a.pt", lambda: newest_whole(str(saved)) is not None, step=7)

    folders = tmp_path / "dcp"
    dcp.save({"model": model.state_dict()}, checkpoint_id=folders / "step-1")
    assert newest_whole(str(folders)) == str(folders / "step-1")
    for file in (folders / "step-1").iterdir():
        _cut_everywhere(file, lambda: newest_whole(str(folders)) is not None, step=11)
    (folders / "step-1" / ".metadata").rename(folders / "step-1" / ".metadata.tmp")
    assert newest_whole(str(folders)) is None


@pytest.mark.torch
def test_what_safetensors_itself_saves(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch", reason="by design: only where safetensors is installed")
    safetensors.save_file({"w": torch.arange(8.0)}, str(tmp_path / "model.safetensors"))
    _cut_everywhere(tmp_path / "model.safetensors", lambda: newest_whole(str(tmp_path)) is not None)


def test_it_runs_as_the_text_that_a_script_keeps(tmp_path: Path) -> None:
    _zipped(tmp_path / "a b.pt")
    (tmp_path / "new.pt").write_bytes(b"PK\x03\x04")
    _age(tmp_path / "a b.pt", 5)
    result = checked(run([sys.executable, "-I", "-S", "-c", part("checkpoint.py"), str(tmp_path)]))

    assert result.stdout.splitlines() == [
        f"half {tmp_path}/new.pt is not whole: new.pt: its end is missing",
        f"whole 1699999995.000000 {tmp_path}/a b.pt",
    ]


def test_a_time_in_the_future_does_not_make_a_checkpoint_the_newest(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        _zipped(tmp_path / f"step{number}.pt")
        _age(tmp_path / f"step{number}.pt", 10 - number)
    ahead = time.time() + 7200
    os.utime(tmp_path / "step1.pt", (ahead, ahead))

    # It is set after the last change of the inode.
    assert find_checkpoints(str(tmp_path))[0].path == str(tmp_path / "step1.pt")
    looks = str(tmp_path / "looks")
    assert find_checkpoints(str(tmp_path), looks)[0].path == str(tmp_path / "step1.pt")
    _zipped(tmp_path / "step4.pt")
    _age(tmp_path / "step4.pt", 1)
    newest = [checkpoint.path for checkpoint in find_checkpoints(str(tmp_path), looks)]
    assert newest[:2] == [str(tmp_path / "step4.pt"), str(tmp_path / "step1.pt")]
    # Another look changes nothing; a file that is written again has appeared again.
    assert [checkpoint.path for checkpoint in find_checkpoints(str(tmp_path), looks)] == newest
    _zipped(tmp_path / "step2.pt")
    _age(tmp_path / "step2.pt", 100)
    assert find_checkpoints(str(tmp_path), looks)[0].path == str(tmp_path / "step2.pt")


@pytest.mark.parametrize(
    ("ahead", "newest"), [({"step1.pt"}, "step3.pt"), ({"step3.pt"}, "step3.pt"), ({"step2.pt"}, "step3.pt")]
)
def test_where_the_clock_of_a_host_is_ahead_the_number_says_which_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: set[str], newest: str
) -> None:
    for number in (1, 2, 3):
        _zipped(tmp_path / f"step{number}.pt")
    times = {f"step{number}.pt": time.time() - 100 + number for number in (1, 2, 3)}
    times.update(dict.fromkeys(ahead, time.time() + 7200))
    monkeypatch.setattr("muster.rank.checkpoint._written", lambda path: times[Path(path).name])

    assert newest_whole(str(tmp_path)) == str(tmp_path / newest)


def test_looks_that_cannot_be_kept_leave_the_clock(tmp_path: Path) -> None:
    for number in (1, 2):
        _zipped(tmp_path / f"step{number}.pt")
        _age(tmp_path / f"step{number}.pt", 10 - number)
    (tmp_path / "looks").write_text("{")

    for looks in (str(tmp_path / "looks"), str(tmp_path / "no" / "looks")):
        assert find_checkpoints(str(tmp_path), looks)[0].path == str(tmp_path / "step2.pt")
