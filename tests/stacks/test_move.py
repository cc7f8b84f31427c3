"""What a rank did between looks, by the counts of its threads; and how long it has to stand to be ended."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import pytest
from msgspec.structs import replace

from muster.runner import end_group, start
from muster_check.stacks.ask import StackQuestion, ask_here
from muster_check.stacks.firm import OPEN_S, ends_after_s, is_still
from muster_check.stacks.judge import _hanging, judge
from muster_check.stacks.move import Doing, Movement, _doing, _doing_of_main_thread, movements
from muster_check.stacks.pulse import Beat, read_pulses
from muster_check.stacks.read import Frame, RankStack, Round, Signs, read_rounds

_TORCH = "/env/lib/python3.11/site-packages/torch"
_OWN = (("load", "/home/a/data.py", 44),)
_OTHER = (("fill", "/home/a/data.py", 60),)
_REDUCE = (("all_reduce", f"{_TORCH}/distributed/distributed_c10d.py", 3000), ("train", "/home/a/train.py", 120))
_LOADER = (("_try_get_data", f"{_TORCH}/utils/data/dataloader.py", 1200), ("epoch", "/home/a/train.py", 30))
_POOL = (("result", "/usr/lib/python3.11/concurrent/futures/_base.py", 451), ("fetch", "/home/a/train.py", 9))
_WANDB = (("_loop", "/env/lib/python3.11/site-packages/wandb/sdk/lib/mailbox.py", 8), ("run", "/home/a/x.py", 1))
_BESIDE = (("beat", "/home/a/train.py", 5),)
_MS = 1_000_000
Stack = tuple[tuple[str, str, int], ...]
Counts = tuple[int, int, str]


def _look(
    number: int,
    *stacks: Stack,
    waits: str = "futex_wait_queue",
    state: str = "S",
    main: Counts = (0, 0, "u"),
    held: int = 0,
    beside: dict[int, tuple[Counts, Stack]] | None = None,
    below: dict[int, tuple[int, int, int]] | None = None,
    cpu: int = 0,
    io: int = 0,
    own_io: int = 0,
    children: str = "-",
    gil: bool = False,
    sleeps: str = "",
    rank: int = 0,
) -> str:
    """Return one rank's answer at a look, each 10 s after the one before; the counts are those of 10 s."""
    frames = [
        {"name": name, "filename": file, "line": line} for name, file, line in stacks[min(number, len(stacks) - 1)]
    ]
    threads: list[dict[str, object]] = [
        {"thread_name": "MainThread", "os_thread_id": 100, "owns_gil": gil, "frames": frames}
    ]
    for thread, (_, stack) in (beside or {}).items():
        own = [{"name": name, "filename": file, "line": line} for name, file, line in stack]
        if own:
            threads.append({"thread_name": "Thread-1", "os_thread_id": thread, "owns_gil": False, "frames": own})

    def pulse(extra: int) -> str:
        # What the look itself caused comes between the two.
        counts = {100: main, **{thread: each for thread, (each, _) in (beside or {}).items()}}
        lines = [f"@pulse {100 + 10 * number}.0 {own_io * number} {sleeps}"]
        lines += [
            f"@thread {thread} {spent * number + extra * _MS} {times * number + extra} {call}"
            for thread, (spent, times, call) in counts.items()
        ]
        lines += [
            f"@below {pid} {ns * number} {times * number} {size * number}"
            for pid, (ns, times, size) in (below or {}).items()
        ]
        return "\n".join(lines)

    head = f"@rank {rank} 2 node1 100 {state} {waits}\n@signs {cpu * number} {io * number} 2048 4 {children} 0 /x"
    return f"{head}\n{pulse(held * number)}\n{json.dumps(threads)}\n{pulse(held * (number + 1))}\n@end\n"


def _rounds(*ranks: dict[str, object], looks: int = 3) -> tuple[Round, ...]:
    text = ""
    for number in range(looks):
        text += f"@node 0 node1 {number + 1} {100 + 10 * number}.0\n"
        for rank, words in enumerate(ranks):
            stacks = words.get("stacks", (_OWN,))
            more = {name: value for name, value in words.items() if name != "stacks"}
            text += _look(number, *stacks, rank=rank, **more)  # type: ignore[misc,arg-type]
        text += "@done 0\n"
    return read_rounds(text)


def _move(**words: object) -> Movement:
    (movement,) = movements(_rounds(words))
    return movement


def _does(**words: object) -> Doing:
    return _move(**words).doing


def test_a_thread_that_writes_beside_a_main_thread_that_stands_is_no_work() -> None:
    beat = {101: ((2 * _MS, 40, "t"), _BESIDE)}
    assert _does(beside=beat, io=40_960, cpu=30) is Doing.RESTS
    assert _does(beside=beat, io=40_960, cpu=30, own_io=40_960) is Doing.READS


def test_what_the_look_itself_caused_is_no_work() -> None:
    assert _does(held=3) is Doing.RESTS
    assert not _move(held=3).wakes


def test_what_came_between_the_last_looks_counts_too() -> None:
    text = "".join(
        f"@node 0 n {number} {number}.0\n{_look(done, _OWN, main=(_MS, 9, 'u'))}@done 0\n"
        for number, done in enumerate((0, 0, 1), 1)
    )
    assert [each.doing for each in movements(read_rounds(text))] == [Doing.MOVES]


def test_a_thread_that_comes_back_late_to_its_wait_is_no_work() -> None:
    assert _does(main=(30_000, 1, "u")) is Doing.RESTS
    assert not _move(main=(30_000, 1, "t")).wakes
    assert _does(main=(30_000, 2, "u")) is Doing.MOVES


def test_a_rank_that_is_stopped_only_now_and_then_goes_on() -> None:
    assert _does(state="T") is Doing.RESTS
    assert _does(state="T", main=(_MS // 2, 10, "?")) is Doing.RESTS
    assert _does(state="T", main=(50 * _MS, 10, "?")) is Doing.MOVES


def test_what_wakes_a_wait_without_an_end_has_come() -> None:
    assert _does(main=(50_000, 1, "u")) is Doing.MOVES
    assert _does(main=(50_000 * 20, 20, "u")) is Doing.MOVES
    # The call is not known: it may be a look at a clock.
    assert _does(main=(50_000, 10, "?")) is Doing.RESTS


@pytest.mark.parametrize(
    ("counts", "doing"),
    [
        ((50_000 * 20, 20, "t"), Doing.RESTS),  # 20 short looks in 10 s
        ((50_000, 1, "t"), Doing.MOVES),  # too few to say
        ((5 * _MS * 5, 5, "t"), Doing.MOVES),  # it computes for 5 ms each time
        ((50_000 * 20, 20, "t0x1f4"), Doing.RESTS),  # every 500 ms, as its call says
        ((50_000 * 20, 20, "t0x1388"), Doing.MOVES),  # its call says 5 s: something came
    ],
)
def test_a_rank_that_only_looks_at_something_is_told_from_one_that_works(counts: Counts, doing: Doing) -> None:
    movement = _move(main=counts, waits="hrtimer_nanosleep")
    assert (movement.doing, movement.wakes) == (doing, doing is Doing.RESTS)


def test_a_data_loader_looks_every_five_seconds_also_where_nothing_comes() -> None:
    assert _does(stacks=(_LOADER,), main=(50_000, 1, "t")) is Doing.RESTS


def test_functions_that_change_are_progress_only_with_processor_time() -> None:
    assert _does(stacks=(_OWN, _OTHER), main=(30 * 10**6, 60, "t")) is Doing.MOVES
    assert _does(stacks=(_OWN, _OTHER), main=(10**6, 60, "t")) is Doing.RESTS


def test_one_call_of_c_is_seen_as_one() -> None:
    busy = (9_000 * _MS, 100, "r")
    assert _does(main=busy, state="R") is Doing.CALLS
    assert _does(main=busy, state="R", stacks=(_OWN, _OTHER)) is Doing.MOVES
    assert _does(main=busy, state="R", gil=True) is Doing.SPINS


@pytest.mark.parametrize("waits", ["do_wait", "pipe_read", "do_sys_poll"])
def test_a_child_that_works_works_for_a_rank_that_waits_for_it(waits: str) -> None:
    assert _does(waits=waits, below={200: (50 * _MS, 10, 0)}) is Doing.MOVES
    assert _does(waits=waits, below={200: (0, 0, 100)}) is Doing.MOVES
    assert _does(waits=waits, below={200: (50 * _MS // 10, 40, 0)}) is Doing.RESTS  # it looks at something
    assert _does(waits=waits, cpu=50) is Doing.MOVES  # children that have ended


def test_a_child_does_nothing_for_a_rank_that_waits_for_something_else() -> None:
    assert _does(below={200: (50 * _MS, 10, 9999)}) is Doing.RESTS
    assert _does(below={200: (50 * _MS, 10, 9999)}, waits="sk_wait_data") is Doing.RESTS
    assert _does(below={200: (50 * _MS, 10, 9999)}, stacks=(_POOL,)) is Doing.MOVES


def test_a_thread_for_which_something_comes_works_for_a_rank_that_waits_for_a_thread() -> None:
    takes = (50_000 * 10, 10, "u")
    assert _does(beside={101: (takes, _BESIDE)}) is Doing.MOVES
    assert _does(beside={101: ((900 * _MS, 10, "t"), _BESIDE)}) is Doing.MOVES  # it computes
    assert _does(beside={101: (takes, _WANDB)}) is Doing.RESTS
    assert _does(beside={101: ((50_000, 10, "t"), _BESIDE)}) is Doing.RESTS
    assert _does(beside={101: ((50_000, 1, "u"), _BESIDE)}) is Doing.RESTS  # it was held by the look before
    assert _does(beside={101: (takes, _BESIDE)}, waits="sk_wait_data") is Doing.RESTS


def test_a_rank_in_a_collective_waits_beside_a_thread_that_writes() -> None:
    writes = {101: ((300 * _MS, 40, "t"), _BESIDE)}
    assert _does(stacks=(_REDUCE,), beside=writes, cpu=40, io=99_999) is Doing.WAITS
    assert _does(stacks=(_REDUCE,), cpu=40, io=99_999) is Doing.MOVES  # its own threads in C bring data
    in_c = {102: ((900 * _MS, 40, "t"), ())}
    assert _does(stacks=(_REDUCE,), beside={**writes, **in_c}, cpu=120, io=99_999) is Doing.MOVES
    assert _does(stacks=(_REDUCE,), beside=writes, main=(_MS, 9, "t"), cpu=40, io=99_999) is Doing.MOVES


def test_lines_that_are_not_counts_are_not_read() -> None:
    assert read_pulses(["@thread 1 2 3 u", "@pulse", "@pulse 1.0 x", ""]) == ()
    (pulse,) = read_pulses(
        ["@pulse 1.5 20 -3", "@thread 7 1 2 t0x1388", "@thread 8 a 2 u", "@below 9 1 2 3", "@below 9 1"]
    )
    assert (pulse.at_s, pulse.bytes, pulse.sleeps_s, list(pulse.threads), list(pulse.below)) == (
        1.5,
        20,
        -3.0,
        [7],
        [9],
    )
    assert (pulse.threads[7].period_s, pulse.spent_s) == (5.0, 2e-9)


def test_without_counts_the_rank_is_judged_by_all_its_processes() -> None:
    text = "".join(
        f"@node 0 n {number + 1} {number}.0\n"
        + "\n".join(line for line in _look(number, _OWN, io=99_999).splitlines() if line[:4] not in {"@pul", "@thr"})
        + "\n@done 0\n"
        for number in (0, 1)
    )
    (movement,) = movements(read_rounds(text))
    assert (movement.doing, movement.beat) == (Doing.READS, None)


_REAL = """
import threading, time
threading.Thread(target=lambda: [time.sleep(0.1) for _ in range(9999)], daemon=True).start()
threading.Thread(target=threading.Lock().__enter__, daemon=True).start()
lock = threading.Lock()
lock.acquire()
threading.Thread(target=lock.acquire, daemon=True).start()
time.sleep(1000)
"""


def test_a_real_process_is_counted() -> None:
    """Through Linux itself: which thread came to a processor, how it waits, and when its sleep ends."""
    job = f"here-test-{os.getpid()}"
    variables = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MUSTER_JOB": job}
    process = start([sys.executable, "-I", "-c", _REAL], env=variables, own_group=True)
    try:
        for _ in range(100):
            rounds = read_rounds(ask_here(job, StackQuestion(None, rounds=2, gap_s=1)))
            if rounds and rounds[-1].stacks and len(rounds[0].stacks[0].pulses[0].threads) == 3:
                break
            time.sleep(0.2)
        # That look may have met the process while it began. The clock of the whole process counts in hundredths of a
        # second: on a busy machine it may pass the clocks of the threads, which reads as a child that came and went.
        for _ in range(20):
            rounds = read_rounds(ask_here(job, StackQuestion(None, rounds=2, gap_s=1)))
            (movement,) = movements(rounds)
            if movement.beat is not None and not movement.beat.below_works:
                break
    finally:
        end_group(process, grace_s=1)
    beat, (first, *_) = movement.beat, rounds[0].stacks[0].pulses
    assert beat is not None
    assert (beat.times, beat.bytes, beat.below_works) == (0, 0, False)
    assert 0 < beat.cpu_beside < 0.5
    calls = sorted(thread.call[:1] for number, thread in first.threads.items() if number != process.pid)
    assert calls == ["t", "u"]
    # Python before 3.11 sleeps in a call that does not say when it ends.
    assert beat.sleeps_s is None or 900 < beat.sleeps_s <= 1000


def _ends(*ranks: dict[str, object], after_s: int = 20) -> int:
    rounds = _rounds(*ranks)
    assert judge(rounds, len(ranks)).is_hang
    return ends_after_s(movements(rounds), after_s)


_WAITS: dict[str, object] = {"stacks": (_REDUCE,)}


@pytest.mark.parametrize(
    ("rank", "seconds"),
    [
        (_WAITS, 20),
        ({"state": "T"}, 20),
        ({}, 20),  # a lock, and no other thread that could give it back
        ({"main": (0, 0, "t")}, OPEN_S),  # it gives up by itself
        ({"beside": {101: ((0, 0, "u"), _BESIDE)}}, OPEN_S),
        ({"children": "cat:S"}, OPEN_S),
        ({"waits": "sk_wait_data"}, OPEN_S),
        ({"waits": "pipe_read"}, OPEN_S),
        ({"state": "D"}, OPEN_S),
        ({"waits": "hrtimer_nanosleep", "main": (0, 0, "t"), "sleeps": "590"}, 20),  # its end is far away
        ({"waits": "hrtimer_nanosleep", "main": (0, 0, "t"), "sleeps": "40"}, OPEN_S),
        ({"waits": "hrtimer_nanosleep", "main": (0, 0, "t")}, OPEN_S),
        ({"waits": "hrtimer_nanosleep", "main": (10**6, 20, "t")}, OPEN_S),
        ({"main": (9_000 * _MS, 9, "r"), "gil": True, "state": "R"}, OPEN_S),
    ],
)
def test_the_more_a_rank_may_go_on_by_itself_the_longer_it_may_stand(rank: dict[str, object], seconds: int) -> None:
    assert _ends(_WAITS, rank) == seconds
    # What may go on by itself in ten minutes gets ten times the time.
    loose = "sleeps" in rank or (rank.get("waits") == "hrtimer_nanosleep" and "main" in rank) or "gil" in rank
    is_sleep_without_end = rank == {"waits": "hrtimer_nanosleep", "main": (0, 0, "t")}
    assert _ends(_WAITS, rank, after_s=600) == (6000 if loose and not is_sleep_without_end else 600)


def test_of_a_rank_that_wakes_nobody_says_that_it_did_not_go_on() -> None:
    wakes: dict[str, object] = {"waits": "hrtimer_nanosleep", "main": (10**6, 20, "t")}
    calls: dict[str, object] = {"main": (9_000 * _MS, 9, "r"), "state": "R"}
    for rank, still in ((wakes, False), (calls, False), ({}, True)):
        assert is_still(movements(_rounds(rank, {}))) is still
    assert judge(_rounds(wakes, _WAITS), 2).sentence == (
        "rank 0 on node1 sleeps at data.py:44 (load), again and again; "
        "1 rank waits in all_reduce at train.py:120 (train)"
    )
    assert judge(_rounds(calls, {"waits": "pipe_read"}), 2).sentence == (
        "rank 1 on node1 waits at a pipe (/x) at data.py:44 (load); "
        "rank 0 on node1 runs in C code at data.py:44 (load): work, or a wait for the others"
    )


def test_a_thread_that_computes_beside_a_rank_that_stands_is_said() -> None:
    rank: dict[str, object] = {"beside": {101: ((100 * _MS, 20, "t"), _BESIDE)}}
    assert not is_still(movements(_rounds(rank, _WAITS)))
    assert judge(_rounds(rank, _WAITS), 2).sentence == (
        "rank 0 on node1 waits for a lock at data.py:44 (load), "
        "while its other threads or children use 1.0% of a core; "
        "1 rank waits in all_reduce at train.py:120 (train)"
    )
    rank = {"beside": {101: ((30 * _MS, 10, "t"), _BESIDE)}}
    assert "use 0.3% of a core" in judge(_rounds(rank, _WAITS), 2).sentence
    # A heartbeat is not worth a word, nor a thread of torch that looks for packets.
    assert is_still(movements(_rounds({"beside": {101: ((40 * _MS, 1000, "t"), _BESIDE)}}, _WAITS)))


def test_a_call_about_a_socket_waits_for_the_network_whatever_the_kernel_calls_its_function() -> None:
    text = "".join(
        f"@node 0 n {number + 1} {number}.0\n{_look(number, _OWN, waits='wait_woken')}@done 0\n" for number in (0, 1)
    ).replace(" 0 /x", " 0 socket:[81]")
    assert judge(read_rounds(text), 1).sentence == "rank 0 on node1 waits for the network at data.py:44 (load)"
    assert judge(_rounds({"waits": "wait_woken"}), 1).sentence == "rank 0 on node1 does not go on at data.py:44 (load)"


def test_a_rank_that_runs_round_a_line_is_said_to_run_also_where_another_one_stands() -> None:
    runs: dict[str, object] = {
        "stacks": (_OTHER,),
        "main": (9_000 * _MS, 9, "r"),
        "gil": True,
        "state": "R",
        "waits": "0",
    }
    assert judge(_rounds(runs, {}), 2).sentence == (
        "rank 1 on node1 waits for a lock at data.py:44 (load); rank 0 on node1 runs at one line at data.py:60 (fill)"
    )


def test_a_call_of_c_beside_ranks_that_only_wait_for_it_is_work() -> None:
    calls: dict[str, object] = {"main": (9_000 * _MS, 9, "r"), "state": "R", "cpu": 900}
    assert not judge(_rounds(calls, _WAITS), 2).is_hang
    assert not judge(_rounds(calls, calls), 2).is_hang


@pytest.mark.parametrize(("ranks", "seconds"), [([_WAITS], 20), ([{"waits": "sk_wait_data"}], OPEN_S), ([], OPEN_S)])
def test_a_silent_node_ends_an_attempt_soon_only_where_the_ranks_that_are_seen_wait(
    ranks: list[dict[str, object]], seconds: int
) -> None:
    rounds = _rounds(*ranks) if ranks else ()
    assert judge(rounds, 2, silent_nodes=["node2"], silent_ranks=[1]).is_hang
    assert ends_after_s(movements(rounds) if rounds else (), 20) == seconds


_INSIDE = (("_engine_run_backward", f"{_TORCH}/autograd/graph.py", 7), ("train", "/home/a/train.py", 120))
_COMPILER = Signs(children=(("nvcc", "R"),))
_GPU = Signs(has_gpu=True)


def _seen(*stacks: Stack, gil: bool = False, kept: bool = False, signs: Signs | None = None) -> list[RankStack]:
    frames = [tuple(Frame(name, file, line) for name, file, line in stack) for stack in stacks]
    return [
        RankStack(0, 2, "n", 9, "R", each, (("MainThread", each),), signs=signs or Signs(), owns_gil=gil, is_kept=kept)
        for each in frames
    ]


@pytest.mark.parametrize(
    ("seen", "cpu", "rate", "doing"),
    [
        (_seen(_OWN, _OWN), 0.02, 2048, Doing.RESTS),
        (_seen(_OWN, _OWN), 0.021, 2048, Doing.MOVES),
        (_seen(_OWN, _OWN), 0.0, 2049, Doing.READS),
        (_seen(_OWN, _OTHER), 0.002, 0, Doing.RESTS),
        (_seen(_OWN, _OTHER), 0.0021, 0, Doing.MOVES),
        (_seen(_OWN, ()), 0.0021, 0, Doing.RESTS),
        (_seen(_OWN, _OWN, gil=True), 0.05, 0, Doing.SPINS),
        (_seen(_OWN, _OWN, gil=True), 0.049, 0, Doing.MOVES),
        (_seen(_OWN, _OWN, gil=True, kept=True), 0.05, 0, Doing.MOVES),
        (_seen(_OWN, (("load", "/home/a/data.py", 47),), gil=True), 0.05, 0, Doing.SPINS),
        (_seen(_OWN, (("load", "/home/a/data.py", 48),), gil=True), 0.05, 0, Doing.MOVES),
        (_seen(_OWN, _OTHER, gil=True), 0.05, 0, Doing.MOVES),
        (_seen(_OWN, (*_OWN, *_BESIDE), gil=True), 0.05, 0, Doing.MOVES),
        (_seen(_OWN, _OWN, signs=_COMPILER), 0.02, 0, Doing.RESTS),
        (_seen(_OWN, _OWN, signs=_COMPILER), 0.021, 0, Doing.COMPILES),
        (_seen(_REDUCE, _REDUCE), 0.021, 2049, Doing.MOVES),
        (_seen(_REDUCE, _REDUCE), 0.021, 2048, Doing.WAITS),
        (_seen(_REDUCE, _REDUCE), 0.02, 2049, Doing.WAITS),
        (_seen(_REDUCE, _REDUCE, signs=_GPU), 0.021, 2049, Doing.WAITS),
        (_seen(_INSIDE, _INSIDE), 0.021, 0, Doing.MOVES),
        (_seen(_INSIDE, _INSIDE), 0.02, 0, Doing.WAITS),
    ],
)
def test_what_a_rank_does_is_told_at_each_limit(seen: list[RankStack], cpu: float, rate: float, doing: Doing) -> None:
    assert _doing(seen, cpu, rate, None) is doing


def _beat(**values: Any) -> Beat:
    nothing = Beat(10.0, 0, 0, 0, False, None, None, frozenset(), False, 0.0, False)
    return replace(nothing, **values)


@pytest.mark.parametrize(
    ("seen", "beat", "doing"),
    [
        (_seen(_OWN, _OWN), _beat(bytes=20_480), Doing.RESTS),
        (_seen(_OWN, _OWN), _beat(bytes=20_481), Doing.READS),
        (_seen(_OWN, _OWN, gil=True), _beat(spent_ns=500 * _MS), Doing.SPINS),
        (_seen(_OWN, _OWN, gil=True), _beat(spent_ns=499 * _MS), Doing.RESTS),
        (_seen(_OWN, _OWN, _OWN), _beat(spent_ns=500 * _MS), Doing.CALLS),
        (_seen(_OWN, _OWN), _beat(spent_ns=500 * _MS), Doing.MOVES),
        (_seen(_OWN, _OWN, _OWN), _beat(seconds=1.5, spent_ns=500 * _MS), Doing.CALLS),
        (_seen(_OWN, _OWN, _OWN), _beat(seconds=1.4, spent_ns=500 * _MS), Doing.MOVES),
        (_seen(_OWN, _OTHER), _beat(times=5, spent_ns=0), Doing.RESTS),
        (_seen(_OWN, _OWN), _beat(times=4), Doing.MOVES),
        (_seen(_OWN, _OWN), _beat(seconds=5.0, times=4), Doing.MOVES),
        (_seen(_OWN, _OWN), _beat(seconds=4.9, times=4), Doing.RESTS),
        (_seen(_OWN, _OTHER), _beat(times=50, spent_ns=20 * _MS), Doing.RESTS),
        (_seen(_OWN, _OTHER), _beat(times=50, spent_ns=21 * _MS), Doing.MOVES),
        (_seen(_OWN, _OWN), _beat(times=50, spent_ns=21 * _MS), Doing.RESTS),
        (_seen(_OWN, _OWN), _beat(times=41, period_s=0.5), Doing.RESTS),
        (_seen(_OWN, _OWN), _beat(times=42, period_s=0.5), Doing.MOVES),
        (_seen(_OWN, _OWN), _beat(times=9, waits_for_ever=True), Doing.MOVES),
        (_seen(_POOL, _POOL), _beat(below_works=True), Doing.MOVES),
        (_seen(_OWN, _OWN), _beat(below_works=True, times=9), Doing.MOVES),
    ],
)
def test_what_a_main_thread_does_is_told_at_each_limit(seen: list[RankStack], beat: Beat, doing: Doing) -> None:
    assert _doing_of_main_thread(seen, beat) is doing


def test_a_process_that_begins_between_two_looks_goes_on() -> None:
    text = "".join(
        f"@node 0 n {number} {number}.0\n{_look(number, _OWN).replace('node1 100', f'node1 {100 + number}')}@done 0\n"
        for number in (1, 2)
    )
    assert [each.doing for each in movements(read_rounds(text))] == [Doing.MOVES]
    assert read_rounds("@node 0 n 1 1.0\n@end\n@done 0\n")[0].stacks == ()


def _stands(rank: int, stack: Stack = _OWN, **words: object) -> Movement:
    frames = tuple(Frame(name, file, line) for name, file, line in stack)
    state, signs = str(words.get("state", "S")), words.get("signs", Signs())
    assert isinstance(signs, Signs)
    place = RankStack(rank, 4, "n", 9, state, frames, (("MainThread", frames),), signs=signs)
    return Movement(place, Doing.WAITS if stack is _REDUCE else Doing.RESTS, 0.0, 0.0)


@pytest.mark.parametrize(
    ("moved", "size", "sentence"),
    [
        ([_stands(0), _stands(1)], 3, "ranks 0-1 on n do not go on at data.py:44 (load); rank 2 has no process"),
        ([_stands(0, _REDUCE)], 2, "rank 1 has no process; 1 rank waits in all_reduce at train.py:120 (train)"),
        (
            [_stands(0, _REDUCE), _stands(1), _stands(2, _OTHER)],
            3,
            "rank 1 on n does not go on at data.py:44 (load); 1 rank waits in all_reduce at train.py:120 (train)",
        ),
        ([_stands(0, state="D")], 1, "rank 0 on n waits for a file system at data.py:44 (load)"),
        (
            [_stands(0, state="D", signs=Signs(file="/x"))],
            1,
            "rank 0 on n waits for a file system (/x) at data.py:44 (load)",
        ),
        ([_stands(0, signs=Signs(file="/x"))], 1, "rank 0 on n does not go on at data.py:44 (load)"),
    ],
)
def test_who_keeps_the_others_waiting(moved: list[Movement], size: int, sentence: str) -> None:
    assert _hanging(moved, size, ()).sentence == sentence
