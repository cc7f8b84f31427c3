"""Guards the reading of a job's output: nothing lost, nothing twice, in order within a rank, in little memory."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.errors import RequestError
from muster.follow import watch
from muster.follow.watch import Follower, JobOutput, LogFile, OutputLine, last_lines, output_of_files, output_of_run


def run_directory(
    folder: Path,
    *,
    nodes: int = 2,
    ranks: int = 2,
    label: bool = True,
    output: str = "files",
    launcher: str = "srun",
    ranks_of_row: int | None = None,
) -> Path:
    """A run directory with a plan that says this much."""
    (folder / "logs").mkdir()
    shape = {"nodes": nodes, "ntasks_per_node": ranks}
    plan = {"shape": shape, "label": label, "output": output, "launcher": launcher}
    if ranks_of_row is not None:
        plan["pack"] = {"shape": {"nodes": 1, "ntasks_per_node": ranks_of_row}}
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


@pytest.mark.parametrize(
    ("raw", "rank", "text"),
    [
        (b"3: hello", 3, b"hello"),
        (b" 3: hello", 3, b"hello"),
        (b"  3:   two spaces", 3, b"  two spaces"),
        (b"12: 3: nested", 12, b"3: nested"),
        (b"3: ", 3, b""),
        (b"[1,3]<stdout>:hello", 3, b"hello"),
        (b"[1,12]<stderr>: hello", 12, b" hello"),
        (b"[3] hello", 3, b"hello"),
        (b"3 hello", None, b"3 hello"),
        (b"-3: hello", None, b"-3: hello"),
        (b"srun: error: node1: task 3: Killed", None, b"srun: error: node1: task 3: Killed"),
        (b"[rank3] hello", None, b"[rank3] hello"),
        (b"", None, b""),
        (b"3: \xff\x00", 3, b"\xff\x00"),
    ],
)
def test_a_line_is_of_the_rank_of_its_label(raw: bytes, rank: int | None, text: bytes) -> None:
    line = LogFile(Path("node1.log")).line(raw)
    assert (line.rank, line.text) == (rank, text)
    assert line.merged() == raw


def test_labels_mean_nothing_where_the_job_was_started_without(tmp_path: Path) -> None:
    assert LogFile(tmp_path, labelled=False).line(b"3: hello").rank is None


def test_files_stand_in_the_order_of_hosts_and_the_batch_script_is_last(tmp_path: Path) -> None:
    directory = run_directory(tmp_path, output="rank-files")
    for name in ("batch", "node10", "node2", "node2.11", "node2.9", "a.b.c.3"):
        (directory / "logs" / f"{name}.log").touch()
    files = output_of_run(directory).files()
    assert [file.path.stem for file in files] == ["a.b.c.3", "node2.9", "node2.11", "node2", "node10", "batch"]
    assert [file.rank for file in files] == [3, 9, 11, None, None, None]


@pytest.mark.parametrize(
    ("launcher", "label", "ranks"),
    [("srun", True, [1, 1]), ("srun", False, [7, 7]), ("torchrun", True, [1, None])],
)
def test_in_a_file_of_its_own_a_rank_may_have_a_label_too(
    tmp_path: Path, launcher: str, label: bool, ranks: list[int | None]
) -> None:
    directory = run_directory(tmp_path, output="rank-files", launcher=launcher, label=label)
    name = "node1.1" if label and launcher == "srun" else "node1.7"
    (directory / "logs" / f"{name}.log").write_bytes(b"1: told\nand this\n")
    lines = last_lines(output_of_run(directory), rank=None, count=5)
    assert [line.rank for line in lines] == ranks


def test_one_rank_alone_needs_no_label(tmp_path: Path) -> None:
    directory = run_directory(tmp_path, nodes=1, ranks=1, label=False)
    (directory / "logs" / "node1.log").write_bytes(b"3: is what it printed\n")
    output = output_of_run(directory)
    output.check_rank(0)
    assert [line.text for line in last_lines(output, rank=0, count=5)] == [b"3: is what it printed"]


@pytest.mark.parametrize(
    ("rank", "label", "ranks_of_row", "complaint"),
    [(4, True, None, "no rank 4"), (1, False, None, "carry no rank"), (2, True, 2, "no rank 2")],
)
def test_a_rank_that_cannot_be_shown_is_refused(
    tmp_path: Path, rank: int, label: bool, ranks_of_row: int | None, complaint: str
) -> None:
    with pytest.raises(RequestError, match=complaint):
        output_of_run(run_directory(tmp_path, label=label, ranks_of_row=ranks_of_row)).check_rank(rank)


@pytest.mark.parametrize("plan", ["", "{", "[]", '{"shape": 3}', '{"shape": {"nodes": "x"}}'])
def test_a_plan_that_cannot_be_read_hides_no_output(tmp_path: Path, plan: str) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "plan.json").write_text(plan)
    (tmp_path / "logs" / "node1.log").write_bytes(b"0: here\n")
    assert [line.text for line in last_lines(output_of_run(tmp_path), rank=0, count=1)] == [b"here"]


_PIECES = st.lists(
    st.tuples(st.integers(0, 2), st.binary(max_size=30), st.booleans()), max_size=30
)  # (file, what is written, whether the reader looks then)


@settings(max_examples=60)
@given(_PIECES)
def test_every_line_is_told_once_and_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, bytes, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    follower = Follower(JobOutput(folder))
    written: dict[int, bytes] = defaultdict(bytes)
    seen: list[bytes] = []
    for file, data, looks in pieces:
        with (folder / f"{file}.log").open("ab") as stream:
            stream.write(data)
        written[file] += data
        if looks:
            seen += [line.merged() for line in follower.new_lines()]
    seen += [line.merged() for line in follower.new_lines(final=True)]
    wanted = [
        line for data in written.values() for line in data.split(b"\n")[: None if data[-1:] != b"\n" else -1] if data
    ]
    assert sorted(seen) == sorted(wanted)
    for data in written.values():
        rest = iter(seen)
        assert all(line in rest for line in (data.removesuffix(b"\n").split(b"\n") if data else []))


def test_a_file_that_is_made_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    follower, path = Follower(JobOutput(tmp_path)), tmp_path / "node1.log"
    path.write_bytes(b"0: before the requeue\n0: half")
    assert len(list(follower.new_lines())) == 1
    (tmp_path / "new").write_bytes(b"0: after, and longer than all that was there\n")
    (tmp_path / "new").replace(path)
    assert [line.text for line in follower.new_lines()] == [b"after, and longer than all that was there"]
    os.truncate(path, 0)
    path.write_bytes(b"0: cut\n")
    assert [line.text for line in follower.new_lines()] == [b"cut"]


def test_a_line_without_an_end_is_bounded(tmp_path: Path) -> None:
    follower = Follower(JobOutput(tmp_path))
    (tmp_path / "node1.log").write_bytes(b"x" * 5_000_000)
    told = list(follower.new_lines(final=True))
    assert b"".join(line.text for line in told) == b"x" * 5_000_000
    assert max(len(line.text) for line in told) < 1_500_000


@pytest.mark.skipif(os.geteuid() == 0, reason="by design: root may read everything")
def test_output_that_may_not_be_read_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "node1.log"
    path.touch(mode=0)
    with pytest.raises(RequestError, match="cannot be read by you"):
        list(Follower(output_of_files([path])).new_lines())


@pytest.mark.parametrize(
    "lines", [200, pytest.param(1000, marks=pytest.mark.wide), pytest.param(10_000, marks=pytest.mark.long)]
)
def test_64_ranks_of_many_lines_lose_nothing_in_50_mb(tmp_path: Path, lines: int) -> None:
    """Sixteen files grow in turns while the follower reads, as nodes write them."""
    follower = Follower(JobOutput(tmp_path))
    counts: dict[int, int] = defaultdict(int)

    def take(*, final: bool = False) -> None:
        for line in follower.new_lines(final=final):
            assert line.rank is not None
            assert int(line.text) == counts[line.rank]
            counts[line.rank] += 1

    tracemalloc.start()
    for block in range(0, lines, lines // 10):
        for node in range(16):
            with (tmp_path / f"node{node}.log").open("ab") as stream:
                for number in range(block, block + lines // 10):
                    stream.write(b"".join(b"%2d: %d\n" % (rank, number) for rank in range(4 * node, 4 * node + 4)))
        take()
    take(final=True)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counts == dict.fromkeys(range(64), lines)
    assert peak_bytes < 5_000 * lines, f"{peak_bytes} on {sys.version}"


def test_the_end_of_a_long_file_is_found_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "node1.log"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # a terabyte of nothing
        stream.seek(0, 2)
        stream.write(b"\n0: last words\n")
    assert [line.text for line in last_lines(JobOutput(tmp_path), rank=0, count=1)] == [b"last words"]


def test_one_rank_of_many_is_read_from_the_files_that_can_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node in range(100):
        text = "".join(f"{rank}: line {line}\n" for line in range(3) for rank in range(node * 8, node * 8 + 8))
        (tmp_path / f"node{node + 1}.log").write_text(text)
    read: list[str] = []
    whole = watch._read_on

    def note(state: watch._Open) -> Iterator[OutputLine]:
        read.append(state.file.path.name)
        return whole(state)

    monkeypatch.setattr(watch, "_read_on", note)

    own_lines = [line for line in Follower(JobOutput(tmp_path)).new_lines(final=True, rank=799) if line.rank == 799]

    assert [line.text for line in own_lines] == [b"line 0", b"line 1", b"line 2"]
    assert read == ["node100.log"]
    assert last_lines(JobOutput(tmp_path), rank=799, count=1) == own_lines[-1:]


@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_number_over_the_end_of_a_chunk_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr(watch, "_CHUNK_BYTES", 4)
    (tmp_path / "node1.log").write_text("x" * before + "\n12345: here\n")
    found = list(Follower(JobOutput(tmp_path)).new_lines(final=True, rank=12345))
    assert [line.text for line in found if line.rank == 12345] == [b"here"]
    assert not list(Follower(JobOutput(tmp_path)).new_lines(final=True, rank=54321))
