"""What happened between two looks at a rank, by the counts of its threads and of the processes below it."""

from __future__ import annotations

import pytest

from muster_check.stacks.pulse import _A_LOOK_NS, _BACK_TO_WAIT_NS, Below, Pulse, Thread, beat_of, read_pulses

_MS = 1_000_000


def _pulse(at_s: float, *threads: tuple[int, int, int, str], below: tuple[tuple[int, int, int, int], ...] = (),
           bytes_: int = 0) -> Pulse:  # fmt: skip
    return Pulse(
        at_s,
        bytes_,
        {number: Thread(spent_ns, times, call) for number, spent_ns, times, call in threads},
        {number: Below(spent_ns, times, count) for number, spent_ns, times, count in below},
    )


_IDLE = (7, 100 * _MS, 5, "u")


@pytest.mark.parametrize(
    ("before", "after", "works"),
    [
        ((), (), False),
        ((), ((9, 0, 0, 0),), True),
        (((9, 0, 0, 0),), (), False),
        (((9, 5, 5, 5),), ((9, 5, 5, 5),), False),
        (((9, 5, 5, 5),), ((9, 5, 5, 6),), True),
        (((9, 0, 0, 0),), ((9, 20 * _MS, 20, 0),), False),  # a fifth of a percent: idle
        (((9, 0, 0, 0),), ((9, 20 * _MS + 1, 21, 0),), True),
        (((9, 0, 0, 0),), ((9, 3 * _A_LOOK_NS, 3, 0),), False),  # a look at a time
        (((9, 0, 0, 0),), ((9, 3 * _A_LOOK_NS + 1, 3, 0),), True),
        (((9, 0, 0, 0),), ((9, _A_LOOK_NS, 0, 0),), False),
        (((9, 0, 0, 0),), ((9, _A_LOOK_NS + 1, 0, 0),), True),
    ],
)
def test_a_process_below_works_where_it_is_new_writes_or_computes(
    before: tuple[tuple[int, int, int, int], ...], after: tuple[tuple[int, int, int, int], ...], works: bool
) -> None:
    looks = [(_pulse(at, _IDLE, below=below),) * 2 for at, below in ((0.0, before), (10.0, after))]
    beat = beat_of(7, looks)

    assert beat is not None
    assert beat.below_works is works


@pytest.mark.parametrize(
    ("spent_ns", "times", "call", "woken"),
    [
        (0, 0, "u", False),
        (0, 1, "u", False),
        (0, 2, "u", True),
        (0, 2, "r", True),
        (0, 2, "t0x1", False),
        (500 * _MS, 0, "t0x1", True),
        (500 * _MS - 1, 0, "t0x1", False),
    ],
)
def test_a_thread_is_woken_by_what_comes_or_works(spent_ns: int, times: int, call: str, woken: bool) -> None:
    looks = [
        (_pulse(at, _IDLE, (8, spent, count, call)),) * 2 for at, spent, count in ((0.0, 0, 0), (10.0, spent_ns, times))
    ]
    beat = beat_of(7, looks)

    assert beat is not None
    assert beat.woken == (frozenset({8}) if woken else frozenset())


@pytest.mark.parametrize(
    ("looks", "is_known"),
    [
        ([(_pulse(0.0, _IDLE),) * 2], False),
        ([(_pulse(0.0, _IDLE),), (_pulse(1.0, _IDLE),) * 2], False),
        ([(_pulse(0.0, _IDLE),) * 2, (_pulse(1.0),) * 2], False),
        ([(_pulse(0.0, _IDLE),) * 2, (_pulse(1.0), _pulse(1.0, _IDLE))], False),
        ([(_pulse(0.0, _IDLE),) * 2, (_pulse(1.0, _IDLE),) * 2], True),
    ],
)
def test_looks_without_counts_say_nothing(looks: list[tuple[Pulse, ...]], is_known: bool) -> None:
    assert (beat_of(7, looks) is not None) is is_known


@pytest.mark.parametrize(("call", "period_s"), [("t0x3e8", 1.0), ("t0x1000003e8", 1.0), ("u", None), ("t", None)])
def test_the_period_of_a_wait(call: str, period_s: float | None) -> None:
    assert Thread(0, 0, call).period_s == period_s


_HEAD = "@pulse 1.5 7"


@pytest.mark.parametrize(
    ("lines", "pulses"),
    [
        ([], ()),
        ([""], ()),
        ([_HEAD], (Pulse(1.5, 7, {}, {}),)),
        ([f"{_HEAD} 3"], (Pulse(1.5, 7, {}, {}, 3.0),)),
        ([f"{_HEAD} -3"], (Pulse(1.5, 7, {}, {}, -3.0),)),
        ([f"{_HEAD} -"], (Pulse(1.5, 7, {}, {}),)),
        (["@pulse 1.5"], ()),
        (["@pulse 1.5 x"], ()),
        (["@thread 8 9 10 u"], ()),
        ([_HEAD, "@thread 8 9 10 u"], (Pulse(1.5, 7, {8: Thread(9, 10, "u")}, {}),)),
        ([_HEAD, "@thread 8 9 10 u more"], (Pulse(1.5, 7, {8: Thread(9, 10, "u")}, {}),)),
        ([_HEAD, "@thread 8 9 10"], (Pulse(1.5, 7, {}, {}),)),
        ([_HEAD, "@thread 8 9 x u"], (Pulse(1.5, 7, {}, {}),)),
        ([_HEAD, "@below 8 9 10 11"], (Pulse(1.5, 7, {}, {8: Below(9, 10, 11)}),)),
        ([_HEAD, "@below 8 9 10 x"], (Pulse(1.5, 7, {}, {}),)),
        ([_HEAD, "@other 8 9 10 11"], (Pulse(1.5, 7, {}, {}),)),
        (
            [_HEAD, "", "@pulse 2 8", "@thread 8 9 10 r"],
            (Pulse(1.5, 7, {}, {}), Pulse(2.0, 8, {8: Thread(9, 10, "r")}, {})),
        ),
    ],
)
def test_the_counts_of_a_rank_are_read(lines: list[str], pulses: tuple[Pulse, ...]) -> None:
    assert read_pulses(lines) == pulses


@pytest.mark.parametrize(
    ("spent_ns", "times", "counted"),
    [
        (_BACK_TO_WAIT_NS, 1, (0, 0)),
        (_BACK_TO_WAIT_NS + 1, 1, (_BACK_TO_WAIT_NS + 1, 1)),
        (5, 2, (5, 2)),
        (0, 0, (0, 0)),
    ],
)
def test_a_main_thread_that_came_back_to_its_wait_did_nothing(
    spent_ns: int, times: int, counted: tuple[int, int]
) -> None:
    looks = [(_pulse(at, (7, spent, count, "u")),) * 2 for at, spent, count in ((0.0, 0, 0), (10.0, spent_ns, times))]
    beat = beat_of(7, looks)

    assert beat is not None
    assert (beat.spent_ns, beat.times) == counted


@pytest.mark.parametrize(("calls", "for_ever"), [("uu", True), ("ut", False), ("ru", False)])
def test_a_rank_waits_for_ever_where_it_does_at_each_look(calls: str, for_ever: bool) -> None:
    beat = beat_of(7, [(_pulse(float(number), (7, 0, 0, call)),) * 2 for number, call in enumerate(calls)])

    assert beat is not None
    assert beat.waits_for_ever is for_ever
