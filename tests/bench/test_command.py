"""The verb: wrong input is a sentence, a hint and status 2; results that are read again are judged, shown and drawn."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from architecture.test_output_schema import read
from bench.results import MIB, round_of, row, start
from muster.cli.app import main
from muster_bench.page import chart
from muster_bench.results import MARK, Absent, Fault, ProbeResult, Refused, SeriesEnd
from muster_bench.verbs.measure import _kept


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a series on two nodes of four ranks, the fabric unused."""
    rows = [row(rate, 2, 8, size) for rate, size in ((3.0, 16 * MIB), (5.4, 128 * MIB))]
    records = (start(), *rows, round_of(0, {(0, 1): 22.0}), SeriesEnd())
    path = tmp_path / "bench.jsonl"
    path.write_text("".join(f"{MARK}{msgspec.json.encode(record).decode()}\n" for record in records))
    return path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--sizes", "64"], "has no unit"),
        (["--sizes"], "--sizes needs a value"),
        (["--collective", "allreduce"], "no collective named 'allreduce'"),
        (["--dtype", "fp32"], "no type of element named 'fp32'"),
        (["--place", "above"], "--place: 'above' is not a known value"),
        (["--parts", "fabric"], "no part named 'fabric'"),
        (["--pairs", "some"], "--pairs: 'some' is not a count"),
        (["--trials", "0"], "--trials: '0' is not a count"),
        (["--pair-size", "16"], "has no unit"),
        (["--html", "nowhere/page.html"], "there is no directory nowhere"),
        (["--html", "."], "--html .: it is a directory"),
        (["--read", "missing.log"], "No such file"),
        (["--submit", "--html", "x.html"], "there is nothing yet for --html"),
        (["python", "train.py"], "muster bench takes no words of its own, but 'python' is one too many"),
        (["--node", "2"], "there is no option --node"),
    ],
)
def test_wrong_input_is_a_sentence_and_a_hint(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "hint: " in told


def test_a_log_is_kept_where_one_is_asked_for(tmp_path: Path) -> None:
    with _kept(None) as none:
        assert none is None
    with _kept(str(tmp_path / "bench.log")) as log:
        assert log is not None
        log.write("x\n")
    assert (tmp_path / "bench.log").read_text() == "x\n"


@pytest.mark.parametrize("content", [b"", b"\0\xff" * 4_000_000, b"just words\n"])
def test_a_file_that_holds_no_results_says_so(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.log").write_bytes(content)
    assert main(["bench", "--read", "other.log"]) == 2
    assert "holds no results of muster bench" in capsys.readouterr().err


def test_a_fabric_that_is_not_used_is_broken(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--site", "clariden", "--read", str(log)]) == 1
    out, told = capsys.readouterr()
    assert "broken" in out
    assert "broken, by profile: 4% of what is expected; clariden publishes 122.6 GB/s" in told


def test_a_run_directory_is_read_like_its_file(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "--site", "clariden", "--json", "--read", str(log.parent)])
    text = capsys.readouterr().out
    read("bench", text)
    document = json.loads(text)
    assert [each["judged_verdict"] for each in document["rows"]] == ["unjudged", "broken"]
    assert document["rows"][1]["busbw_gb_s"] == pytest.approx(5.4)
    assert document["complete"] is True
    assert document["pairs"] == [{"nodes": [0, 1], "gb_s": pytest.approx(22.0)}]


def test_a_log_cut_short_is_shown_and_said_and_not_a_success(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = log.read_text()
    log.write_text(text[: text.index(MARK, text.index("16777216")) + 50])
    assert main(["bench", "--read", str(log), "--html", "page.html"]) == 1
    assert "cut short" in Path("page.html").read_text()
    out, told = capsys.readouterr()
    assert "16 MiB" in out
    assert "the series was cut short after all_reduce of 16777216 bytes" in told
    assert "1 of the ranks' lines cannot be read" in told


def test_the_page_names_nothing_outside_itself(log: Path, tmp_path: Path) -> None:
    main(["bench", "--site", "clariden", "--read", str(log), "--html", "page.html"])
    text = (tmp_path / "page.html").read_text()
    assert "nodes: 2, ranks: 8, nccl" in text
    assert "Broken" in text
    assert "cut short" not in text
    assert "5.4" in text
    assert not re.search(r"https?:|src=|@import|<script|<link", text)


def test_a_host_name_cannot_write_into_the_page(log: Path, tmp_path: Path) -> None:
    log.write_text(log.read_text().replace('"n0"', '"<b>n0"'))
    main(["bench", "--read", str(log), "--html", "page.html"])
    assert "<b>" not in (tmp_path / "page.html").read_text()


def test_the_median_of_two_ranks_lies_between_them(log: Path, tmp_path: Path) -> None:
    probe = ProbeResult(name="gemm", unit="TFLOP/s", more_is_better=True, by_rank=((0.3,), (0.6,)))
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([lines[0], f"{MARK}{msgspec.json.encode(probe).decode()}\n", *lines[1:]]))
    main(["bench", "--read", str(log), "--html", "page.html"])
    alone = (tmp_path / "page.html").read_text().partition("Each rank alone")[2]
    numbers = re.findall(r"<td class=n>([\d.]+)</td>", alone)
    assert [float(number) for number in numbers[:3]] == [0.45, 0.3, 0.6]


def test_comparing_without_a_history_says_that_there_is_none(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--read", str(log), "--compare"]) == 0
    assert "there is no history yet" in capsys.readouterr().err


def test_what_is_read_is_not_added_to_the_history(log: Path, tmp_path: Path) -> None:
    main(["bench", "--read", str(log)])
    assert not (tmp_path / "state" / "muster" / "bench.jsonl").exists()


def test_a_series_begun_twice_in_a_log_is_the_later(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(log.read_text() * 2)
    main(["bench", "--read", str(log), "--json"])
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2


def test_a_tick_below_a_ten_thousandth_is_written_out() -> None:
    drawn = chart({"all_reduce": [(1.0, 2e-5), (2.0, 0.5)]}, (1.0, 2.0), str)
    assert ">0.00001<" in drawn


def test_all_that_is_said_of_a_series(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Callable[[Path, str], None]
) -> None:
    """Two counts of nodes, within and between nodes, two types, a wrong sum, a slow pair, what is absent, a refusal."""
    nodes = 4
    rows = [
        row(20.0, 2, 8, 16 * MIB),
        row(80.0, 2, 8, 128 * MIB),
        *(row(rate, nodes, 16, size) for rate, size in ((12.0, 16 * MIB), (70.0, 128 * MIB), (0.2, 1024))),
        row(9.0, nodes, 16, 128 * MIB, dtype="bfloat16", wrong=(Fault(3, 2, 17), Fault(5, 1))),
        row(140.0, 1, 4, 128 * MIB, scope="intra", by_node=(1e-3, 1e-3, 3e-3, 1e-3)),
        row(40.0, nodes, 4, 128 * MIB, "all_gather", scope="inter"),
        row(31.0, nodes, 16, 128 * MIB, "all_gather", place="out", seconds=(0.001, 0.009, 0.004)),
    ]
    absent = [
        Absent(scope="nodes", nodes=3, ranks=12, collective="all_reduce", reason="too long"),
        Absent(
            scope="nodes", nodes=4, ranks=16, collective="all_to_all", reason="no memory", dtype="f8", bytes=1 << 40
        ),
    ]
    rounds = [
        round_of(0, {(0, 1): 22.0, (2, 3): 21.0}, 32 * MIB),
        round_of(1, {(0, 2): 22.5, (1, 3): 4.0}, 32 * MIB),
    ]
    probes = [
        ProbeResult(name="gemm_bfloat16", unit="TFLOP/s", more_is_better=True, by_rank=((400.0,),) * 15 + ((90.0,),)),
        ProbeResult(name="launch", unit="µs", more_is_better=False, by_rank=((5.0, 6.0, 7.0),) * 16),
        ProbeResult(name="copy", unit="GB/s", more_is_better=True, by_rank=(), reason="no GPU"),
    ]
    begun = start(nodes, torch=("2.9.0",) * 15 + ("2.8.0",), variables={"NCCL_DEBUG": "WARN"}, differing=("OMP",))
    for name, end in (("whole", SeriesEnd()), ("refused", Refused("the ranks have different torch"))):
        records = [begun, *rows, *absent, *rounds, *probes, end] if name == "whole" else [begun, end]
        lines = (f"{MARK}{msgspec.json.encode(record).decode()}\n" for record in records)
        (tmp_path / f"{name}.log").write_text("".join(lines))
    told = []
    for words in ("--site clariden --html page.html", "--site clariden --json"):
        for name in ("whole", "refused"):
            status = main(["bench", *words.split(), "--read", f"{name}.log"])
            out, err = capsys.readouterr()
            if "--json" in words:
                out = re.sub(r"\n {3,}|\n {2}(?=[]}])", " ", out)
            told += [f"$ {words} --read {name}.log → {status}", out, err]
            if "--html" in words and name == "whole":
                shown = re.sub(
                    r"<style>.*</style>|<[^>]*>", "\n", (tmp_path / "page.html").read_text(), flags=re.DOTALL
                )
                told.append(html.unescape(re.sub(r"\n\s*", " | ", shown)).replace(" | | ", "\n"))
    text = "\n".join(line.rstrip() for line in "\n".join(told).splitlines())
    golden(Path(__file__).parent.parent / "golden/bench.txt", f"{text}\n")
