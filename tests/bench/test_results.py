"""Lines of a log become results whatever else is in it; what is damaged is counted, and nothing else is lost."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.results import MIB, row, start
from muster_bench.history import history_lines, read_history
from muster_bench.ranks import report
from muster_bench.results import MARK, Series, SeriesEnd, read_series
from muster_bench.table import COLUMNS, columns_for


def lines() -> list[str]:
    records = (start(), row(10, 2, 8, MIB), row(20, 2, 8, 16 * MIB), SeriesEnd())
    return [f"{MARK}{msgspec.json.encode(record).decode()}\n" for record in records]


def test_both_sides_write_the_same_mark() -> None:
    assert report.MARK == MARK


def test_a_log_with_other_lines_and_labels_is_read() -> None:
    text = ["warming up\n", *(f" 0: {line}" for line in lines()), "bye\n"]
    series = read_series(text)
    assert len(series.rows) == 2
    assert series.complete
    assert series.unreadable == 0


def test_a_log_cut_in_a_line_keeps_what_was_whole() -> None:
    text = "".join(lines())
    series = read_series(text[: text.index(lines()[2]) + 60].splitlines(keepends=True))
    assert len(series.rows) == 1
    assert series.unreadable == 1
    assert not series.complete


@given(st.binary(max_size=300))
def test_any_bytes_between_the_lines_change_nothing(noise: bytes) -> None:
    clean = noise.decode(errors="replace").replace(MARK, "").replace('{"kind"', "").splitlines()
    assert read_series([*lines()[:2], *clean, *lines()[2:]]).rows == read_series(lines()).rows


def test_of_two_runs_in_one_log_the_later_counts() -> None:
    assert len(read_series([*lines(), *lines()[:2]]).rows) == 1


def test_p95_and_spread_are_of_the_trials() -> None:
    one = row(10, 2, 8, MIB, seconds=tuple(float(each) for each in range(1, 101)))
    assert one.p95_s == 95.0
    assert one.median_s == 50.5
    assert one.spread == pytest.approx(0.5716, abs=1e-3)


def test_a_history_cut_short_loses_only_the_line_that_was_cut() -> None:
    series = Series(start=start(), rows=(row(10, 2, 8, MIB), row(20, 2, 8, 16 * MIB)))
    whole = [f"{line}\n" for line in history_lines(series, "clariden")]
    history = read_history([*whole, whole[0][:40], whole[1]])
    assert len(history.entries) == 3
    assert history.unreadable == 1


def test_what_was_measured_wrong_teaches_the_history_nothing() -> None:
    from muster_bench.results import Fault

    assert not history_lines(Series(start=start(), rows=(row(10, 2, 8, MIB, wrong=(Fault(0, 1, 0),)),)), "clariden")


@pytest.mark.parametrize("room", [40, 60, 80, 100, 115, 116, 127, 200])
def test_a_narrow_terminal_shows_fewer_columns_and_never_half_a_row(room: int) -> None:
    widths = [18, 16, 10, 7, 11, 11, 11, 6, 10, 10, 12, 6]
    shown = columns_for(room, widths)
    names = [COLUMNS[index] for index in shown]
    assert {"collective", "size", "time", "bus GB/s", "wrong"} <= set(names)
    assert sum(widths[index] for index in shown) <= max(room, 54)
    assert names == [name for name in COLUMNS if name in names], "in their order"
    assert len(names) == len(COLUMNS) or room < sum(widths)
