"""What `muster bench` shows, keeps and starts again: one row for each condition that decides something."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from bench.results import start as begun
from launch.plans import FACTS
from muster.cli.command_line import TypedLaunch, Words, read_command
from muster.errors import RequestError
from muster.job.options import Typed
from muster.job.request import Request
from muster.look import place
from muster.look.place import RunPlace
from muster_bench import history
from muster_bench import judge as judges
from muster_bench.results import CollectiveRow, Pairs, ProbeResult, Series
from muster_bench.verbs import bench, measure, starts

_ROW = CollectiveRow(
    scope="inter", nodes=2, ranks=8, collective="all_reduce", dtype="f32", place="cpu", bytes=8, iterations=2,
    seconds=(1.0, 2.0),
)  # fmt: skip
_WRONG = replace(_ROW, wrong=(SimpleNamespace(count=1),))


def _words(*typed: str, **values: Any) -> Words:
    named = dict.fromkeys(("json", "quiet", "html", "history", "no_history", "compare", "log", "submit", "read"))
    return Words("bench", {**named, **values}, TypedLaunch({}, {}, (), typed), Typed({}, {}, (), ()))


@pytest.mark.parametrize(
    ("records", "quiet", "lines"),
    [
        ([_ROW], True, []),
        ([_ROW], False, ["where", "2"]),
        ([_ROW, _ROW], False, ["where", "2", "2"]),
        ([ProbeResult(name="copy", unit="GB/s", more_is_better=True, by_rank=((1.0,), (3.0,)))], False, ["muster:"]),
        ([ProbeResult(name="copy", unit="GB/s", more_is_better=True, by_rank=())], False, []),
        ([Pairs(round=1, bytes=8, pairs=())], False, ["muster:"]),
        (["a text"], False, []),
    ],
)
def test_the_table_grows_by_a_line_for_each_row(
    capsys: pytest.CaptureFixture[str], records: list[Any], quiet: bool, lines: list[str]
) -> None:
    progress = measure.Progress(quiet=quiet)
    for record in records:
        progress.show(record)
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in said] == lines
    if isinstance(records[0], ProbeResult) and said:
        assert said[0].endswith("copy: 1 to 3 GB/s")
    if isinstance(records[0], Pairs):
        assert said[0].endswith("round 2")


@pytest.mark.parametrize(
    ("row", "tty", "no_color", "red"),
    [(_WRONG, True, "", True), (_WRONG, True, "1", False), (_WRONG, False, "", False), (_ROW, True, "", False)],
)
def test_a_row_with_wrong_elements_is_red_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], row: Any, tty: bool, no_color: str, red: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty, raising=False)
    monkeypatch.setattr(measure, "terminal_room", lambda _: 1000)
    measure.Progress(quiet=False).show(row)
    head, line = capsys.readouterr().err.splitlines()
    assert (line.startswith("\033[31m") and line.endswith("\033[0m")) is red
    plain = line.removeprefix("\033[31m").removesuffix("\033[0m")
    assert len(head) == len(plain)
    assert head.startswith("where             collective      type      place ")
    assert plain.index("all_reduce") == head.index("collective")
    assert head[50:61].strip() == head[50:61].lstrip()  # numbers end where their head does


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "row\n"), ("", "row\n"), ("old\n", "old\nrow\n"), ("cut sho", "cut sho\nrow\n")],
)
def test_a_series_is_a_line_of_its_own_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None, after: str
) -> None:
    file = tmp_path / "a/b/history"
    if before is not None:
        file.parent.mkdir(parents=True)
        file.write_text(before)
    monkeypatch.setattr(history, "history_lines", lambda *_: ["row"])
    bench._remember(None, "lab", FACTS, _words(history=str(file)))  # type: ignore[arg-type]
    assert file.read_text() == after


@pytest.mark.parametrize(
    ("compare", "text", "told"), [(True, None, "no history yet"), (None, None, ""), (None, "x\n", "1 lines")]
)
def test_a_history_that_is_not_there_or_cannot_be_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compare: bool | None, text: str | None, told: str
) -> None:
    file = tmp_path / "history"
    if text is not None:
        file.write_text(text)
    bench._history(FACTS, _words(history=str(file), compare=compare))
    said = capsys.readouterr().err
    assert (told in said) if told else not said


@pytest.mark.parametrize(
    ("values", "own", "of_shell"),
    [
        ({}, [], []),
        ({"json": True, "quiet": True}, ["--json", "--quiet"], ["--quiet"]),
        ({"html": "a.html", "history": "h"}, ["--html", "a.html", "--history", "h"], []),
        ({"no_history": True}, ["--no-history"], []),
    ],
)
def test_all_starts_are_measured_in_one_allocation(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], own: list[str], of_shell: list[str]
) -> None:
    seen: list[list[str]] = []

    def start(argv: list[str]) -> Any:
        seen.append(argv)
        return SimpleNamespace(wait=lambda: 4)

    monkeypatch.setattr(starts, "start", start)
    monkeypatch.setattr(starts, "own_command", lambda: ["muster"])
    assert starts._in_a_job(_words("-N", "2", **values)) == 4
    again = ["muster", "bench", "--start", *own, "-N", "2"]
    assert seen == [["muster", "shell", *of_shell, "-N", "2", "--", *again]]


@pytest.mark.parametrize(
    ("where", "nodes", "most"),
    [(RunPlace.HERE, 4, 1), (RunPlace.WITHIN, 4, 4), (RunPlace.WITHIN, None, 7), (RunPlace.ALLOCATE, 4, None)],
)
def test_starts_are_measured_up_to_the_nodes_that_are_there(
    monkeypatch: pytest.MonkeyPatch, where: RunPlace, nodes: int | None, most: int | None
) -> None:
    seen: list[int] = []

    def measured(most: int, *_: Any) -> list[Any]:
        seen.append(most)
        return []

    monkeypatch.setattr(place, "place_of", lambda *_: (where, ""))
    monkeypatch.setattr(starts, "_measure", measured)
    monkeypatch.setattr(starts, "_granted", lambda _: 7)
    monkeypatch.setattr(starts, "_conclude", lambda *_: 3)
    monkeypatch.setattr(starts, "_in_a_job", lambda _: 4)
    request = Request(command=(), nodes=nodes)
    assert starts.measure_starts(FACTS, request, _words()) == (4 if most is None else 3)
    assert seen == ([] if most is None else [most])
    with pytest.raises(RequestError, match="--start measures no bandwidth"):
        starts.measure_starts(FACTS, request, read_command(bench.COMMAND, ["--start", "--compare"]))


@pytest.mark.parametrize(("pairs", "rounds"), [(3, 3), (0, None), (None, None)])
def test_the_rounds_of_pairs_are_those_asked_for(pairs: int | None, rounds: int | None) -> None:
    named = dict.fromkeys(("parts", "collective", "dtype", "sizes"))
    words = _words(**named, place="cpu", trials=2, iterations=2, pairs=pairs, pair_size="1MiB", storage="s")
    assert bench._order(words, "/w").pair_rounds == rounds


@pytest.mark.parametrize(
    ("request_values", "hosts", "words", "status", "verdict", "complete", "site", "kept", "ends"),
    [
        ({}, 2, {}, 0, "pass", True, None, True, 0),
        ({"here": True}, 2, {}, 0, "pass", True, "laptop", True, 0),
        ({}, 1, {}, 0, "pass", True, "laptop", True, 0),
        ({"site": "lumi"}, 1, {}, 0, "pass", True, "lumi", True, 0),
        ({}, 2, {"no_history": True}, 0, "pass", True, None, False, 0),
        ({}, 2, {"read": "x"}, 0, "pass", True, None, False, 0),
        ({}, 2, {}, 0, "broken", True, None, True, 1),
        ({}, 2, {}, 0, "pass", False, None, True, 1),
        ({}, 2, {}, 7, "broken", False, None, True, 7),
    ],
)
def test_a_series_is_judged_for_its_site_and_kept(
    monkeypatch: pytest.MonkeyPatch, request_values: dict[str, Any], hosts: int, words: dict[str, Any], status: int,
    verdict: str, complete: bool, site: str | None, kept: bool, ends: int,
) -> None:  # fmt: skip
    sites: list[str | None] = []
    remembered: list[str] = []

    def choose(name: str | None, *_: Any) -> Any:
        sites.append(name)
        return SimpleNamespace(profile=SimpleNamespace(name="s"))

    monkeypatch.setattr("muster.sites.load.choose_site", choose)
    monkeypatch.setattr(judges, "judge", lambda *_: ([SimpleNamespace(verdict=verdict)], []))
    monkeypatch.setattr(bench, "_history", lambda *_: None)
    monkeypatch.setattr(bench, "_show", lambda *_: None)
    monkeypatch.setattr(bench, "_remember", lambda _, name, *__: remembered.append(name))
    request = Request(command=(), **request_values)
    series = Series(start=begun(2, hosts=("n0", f"n{hosts - 1}")), complete=complete)
    assert bench._conclude(series, status, FACTS, request, _words(**{"read": None, **words})) == ends
    assert (sites, remembered) == ([site], ["s"] * kept)
    assert bench._conclude(Series(), 5, FACTS, request, _words(read=None)) == 5
    with pytest.raises(RequestError, match="no rank reported"):
        bench._conclude(Series(), 0, FACTS, request, _words(read=None))


@pytest.mark.parametrize(
    ("name", "refused"),
    [(None, ""), ("new", ""), ("old", ""), ("gone/new", "there is no directory"), ("folder", "it is a directory"),
     ("closed", "you cannot write it"), ("locked/new", "you cannot write it")],
)  # fmt: skip
@pytest.mark.parametrize("option", ["html", "log"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None, refused: str, option: str
) -> None:
    for folder in ("folder", "locked"):
        (tmp_path / folder).mkdir()
    for file in ("old", "closed"):
        (tmp_path / file).touch()
    closed = {tmp_path / "closed", tmp_path / "locked"}
    monkeypatch.setattr("muster_bench.verbs.bench.os.access", lambda path, _: Path(path) not in closed)
    words = {"html": None, "log": None, option: None if name is None else str(tmp_path / name)}
    with pytest.raises(RequestError, match=refused) if refused else nullcontext():
        bench._check_outputs(_words(**words))


@pytest.mark.parametrize(
    ("verdicts", "said", "unsaid"),
    [
        (["unjudged"], "not judged: r0\n", "pass"),
        (["unjudged"] * 3, "not judged: r0; r1; r2\n", "pass"),
        (["unjudged"] * 4, "", "not judged"),
        (["pass", "unjudged"], "pass, by history: r0\nmuster: not judged: r1\n", "r0; r1"),
        (["broken"], "broken, by history: r0\n", "not judged"),
    ],
)
def test_what_a_row_is_held_against_is_said(
    capsys: pytest.CaptureFixture[str], verdicts: list[str], said: str, unsaid: str
) -> None:
    judged: list[Any] = [
        SimpleNamespace(verdict=verdict, against="history", reason=f"r{number}")
        for number, verdict in enumerate(verdicts)
    ]
    bench._show(Series(rows=(_ROW,) * len(judged)), judged, [], "lab", _words(quiet=False))
    told = capsys.readouterr().err
    assert said in told
    assert unsaid not in told
