"""Sizes have units, lists hold known names, and what is wrong is said before anything starts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import RequestError, UnknownName
from muster_bench.order import DTYPES, choose, format_bytes, parse_bytes, parse_sizes


def test_a_range_is_every_power_of_two() -> None:
    sizes = parse_sizes("8B..16GiB")
    assert sizes[0] == 8
    assert sizes[-1] == 1 << 34
    assert sizes == tuple(2**power for power in range(3, 35))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("64", "no unit"),
        ("8..1MiB", "no unit"),
        ("1MiB..8", "no unit"),
        ("64K", "not a unit"),
        ("1.5MiB", "not a size"),
        ("-1MiB", "not a size"),
        ("", "not a size"),
        ("1MiB..", "not a size"),
        ("٣MiB", "not a size"),
        ("4B", "out of range"),
        ("0MiB", "out of range"),
        ("99999999999GiB", "out of range"),
        ("2MiB..1MiB", "backwards"),
        ("1MiB,,2MiB", "not a size"),
    ],
)
def test_a_wrong_size_is_refused_with_a_hint(text: str, says: str) -> None:
    with pytest.raises(RequestError, match=says) as refused:
        parse_sizes(text)
    assert refused.value.hint


@given(st.integers(3, 40))
def test_a_power_of_two_is_written_as_it_is_read(power: int) -> None:
    assert parse_bytes(format_bytes(1 << power)) == 1 << power


@given(st.text(max_size=12))
def test_any_text_is_sizes_or_a_sentence(text: str) -> None:
    try:
        sizes = parse_sizes(text)
    except RequestError:
        return
    assert all(8 <= size <= 1 << 40 for size in sizes)


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(UnknownName) as refused:
        choose("float23", "type of element", DTYPES)
    assert refused.value.hint == "did you mean 'float32'?"


def test_hyphens_and_repetitions_are_forgiven() -> None:
    assert choose("all-reduce,all_reduce", "collective", ("all_reduce",)) == ("all_reduce",)
