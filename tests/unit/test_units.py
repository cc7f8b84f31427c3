"""Guards the units: what a person or Slurm wrote means what Slurm takes it to mean."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import RequestError
from muster.units import format_memory, format_walltime, parse_memory_mib, parse_walltime_s

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30 * MINUTE),
        ("1:30", MINUTE + 30),
        ("1:30:00", HOUR + 30 * MINUTE),
        ("90:00", 90 * MINUTE),
        ("2-0", 2 * DAY),
        ("2-03", 2 * DAY + 3 * HOUR),
        ("1-2:3", DAY + 2 * HOUR + 3 * MINUTE),
        ("1-2:3:4", DAY + 2 * HOUR + 3 * MINUTE + 4),
        ("100:0:0", 100 * HOUR),
        (" 10 ", 10 * MINUTE),
        ("0", 0),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_a_time_means_what_slurm_takes_it_to_mean(text: str, seconds: int | None) -> None:
    assert parse_walltime_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "1h", "1:2:3:4", "1-", "-1:00", "1.5", "١٢", "1-2-3", ":", "1:", "1:-3", "+5", "1 2", "5\n:3"]
)
def test_what_slurm_would_not_read_as_a_time_is_refused_with_its_forms(text: str) -> None:
    with pytest.raises(RequestError, match="not a time limit") as caught:
        parse_walltime_s(text)
    assert "days-hours" in (caught.value.hint or "")


@given(st.integers(0, 400 * DAY))
def test_a_time_survives_being_written(seconds: int) -> None:
    assert parse_walltime_s(format_walltime(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("64G", 65536),
        ("64g", 65536),
        ("1500", 1500),
        ("1T", 1048576),
        ("1K", 1),
        ("1025K", 2),
        ("2GB", 2048),
        ("2GiB", 2048),
        ("0", 0),
    ],
)
def test_a_memory_size_is_mebibytes_and_parts_are_rounded_up(text: str, mib: int) -> None:
    assert parse_memory_mib(text) == mib


@pytest.mark.parametrize("text", ["", "G", "-1G", "1.5G", "64X", "64 GG", "٣G", "1e9", "64G\nx"])
def test_what_is_no_memory_size_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="not a memory size"):
        parse_memory_mib(text)


@given(st.integers(0, 1 << 50))
def test_a_memory_size_survives_being_written(mib: int) -> None:
    assert parse_memory_mib(format_memory(mib)) == mib


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    for parse in (parse_walltime_s, parse_memory_mib):
        with suppress(RequestError):
            parse(text)
