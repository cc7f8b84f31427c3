"""Guards `muster bench --start`: the phases of a start, by number of nodes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import msgspec
import pytest

from architecture.test_output_schema import read
from muster.cli.app import main
from muster_bench.ranks.start import WORD
from muster_bench.start_page import phase_cells, seconds, start_page
from muster_bench.starts import RankLine, node_counts, read_rank, read_rows, row_of, usual_s


def rank(number: int, *, late: float = 0.0, torch: bool = True) -> RankLine:
    came = {"imported": 5.0 + late, "joined": 6.0 + late, "summed": 6.5 + late, "sum": 2} if torch else {}
    return RankLine(rank=number, size=2, host=f"n{number}", began=1.0, main=1.5, **came)  # type: ignore[arg-type]


def test_each_phase_begins_where_the_one_before_ended() -> None:
    row = row_of([rank(0), rank(1, late=2.0), rank(2)], 2, 0.25, "tinker")
    assert row.median_s == {"start": 0.75, "prologue": 0.5, "import": 3.5, "joining": 1.0, "first collective": 0.5}
    assert row.slowest_s["import"] == 5.5
    assert row.slowest_s["joining"] == 1.0


def test_without_torch_only_the_start_is_known() -> None:
    row = row_of([rank(0, torch=False)], 1, 0.25, "tinker")
    assert set(row.slowest_s) == {"start", "prologue"}
    assert phase_cells(row, ())[2:] == ["–", "–", "–"]
    assert "joining</dt>" not in start_page([row], ())


def test_clocks_that_differ_make_no_negative_time() -> None:
    assert row_of([rank(0)], 1, 1.01, "tinker").slowest_s["start"] == 0.0


@pytest.mark.parametrize(
    ("most", "counts"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (4, (1, 2, 4)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))]
)
def test_nodes_double_up_to_the_most(most: int, counts: tuple[int, ...]) -> None:
    assert node_counts(most) == counts


def test_only_like_starts_of_the_same_site_are_compared() -> None:
    row = row_of([rank(0)], 2, 0.0, "tinker")
    others = [
        msgspec.structs.replace(row, **{name: value})
        for name, value in {"site": "other", "nodes": 4, "ranks": 9, "device": "A100"}.items()
    ]
    earlier = [msgspec.structs.replace(row, slowest_s={"start": value}) for value in (1.0, 3.0, 9.0)]
    assert usual_s(row, "start", [*others, *earlier]) == 3.0
    assert usual_s(row, "import", earlier) is None
    assert phase_cells(row, earlier)[0] == "1.00 s … 1.00 s (3.00 s)"


def test_lines_of_others_and_broken_lines_are_left_out() -> None:
    row = row_of([rank(0)], 1, 0.0, "tinker")
    text = msgspec.json.encode(row).decode()
    assert read_rows([text, "\n", text[:20]]) == ((row,), 1)
    assert read_rank("hello") is None
    assert seconds(0.0123) == "12 ms"


def test_a_start_here_is_measured_shown_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError\n")  # the real one takes seconds
    words = ["bench", "--start", "--here", "--ntasks-per-node", "2", "--history", "kept.jsonl", "--html", "start.html"]
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert main([*words, "--json", "--env", f"PYTHONPATH={tmp_path}"]) == 0
    said = capfd.readouterr()
    read("bench --start", said.out)
    (row,) = json.loads(said.out)["starts"]
    assert (row["nodes"], row["ranks"]) == (1, 2)
    assert "has no torch" in said.err
    assert [each.ranks for each in read_rows((tmp_path / "kept.jsonl").read_text().splitlines())[0]] == [2]
    assert re.search("<title>Start of a job on", (tmp_path / "start.html").read_text())


@pytest.mark.parametrize("words", [["--sizes", "8B"], ["--submit"], ["--parts", "pairs"]])
def test_what_measures_bandwidth_is_refused(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--start", "--here", *words]) == 2
    assert "--start measures no bandwidth" in capfd.readouterr().err


def test_a_line_of_a_rank_is_read() -> None:
    record = {"rank": 0, "size": 1, "host": "n", "began": 1.0, "main": 2.0}
    assert read_rank(f"{WORD}{json.dumps(record)}\n") == RankLine(0, 1, "n", 1.0, 2.0)
