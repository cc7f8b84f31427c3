"""The ranks meet over real sockets: facts arrive, clocks are compared, a verdict is heard, strangers are not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from muster.launchers.base import DOOR_PIECES
from muster.render.parts import compose
from muster.runner import run
from muster_check.ranks import exchange
from muster_check.ranks.exchange import STOP, Clock, MeetingPoint, meet
from muster_check.ranks.facts import Rank
from muster_check.ranks.store import ask_port, forget_port, knock, tell_port


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def rank(number: int) -> Rank:
    return Rank(rank=number, local_rank=0, host=f"node{number}")


def met(
    others: int, *, clocks: dict[int, float] | None = None, waits: bool = False, go: bool = True
) -> tuple[list[Any], dict[int, str | None]]:
    """(what rank 0 heard, what each rank was told) of that many ranks that meet rank 0."""
    port = free_port()
    point = MeetingPoint(port, "job", others, Clock())
    told: dict[int, str | None] = {}

    def come(number: int) -> None:
        clock = Clock((clocks or {}).get(number, 0.0))
        told[number] = meet("127.0.0.1", port, "job", rank(number), clock, 10, waits=waits)

    ranks = [threading.Thread(target=come, args=(number,)) for number in range(1, others + 1)]
    for each in ranks:
        each.start()
    heard = point.wait(10)
    point.conclude(go=go)
    for each in ranks:
        each.join(10)
    return heard, told


@pytest.mark.parametrize(
    ("local_rank", "measuring_s", "fast", "measured", "tries"),
    [(0, 10.0, 1e99, True, 3), (0, 10.0, 0.0, True, 1), (1, 10.0, 0.0, False, 0), (0, -1.0, 0.0, False, 0)],
)
def test_the_speed_is_measured_once_for_each_node_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch, local_rank: int, measuring_s: float, fast: float, measured: bool, tries: int
) -> None:
    bursts: list[float] = []
    real = exchange._speed

    def speed(connection: socket.socket) -> float:
        bursts.append(real(connection))
        return bursts[-1]

    monkeypatch.setattr(exchange, "_speed", speed)
    monkeypatch.setattr(exchange, "_MEASURING_S", measuring_s)
    monkeypatch.setattr(exchange, "_SURELY_FAST_BYTES_PER_S", fast)
    monkeypatch.setattr(sys.modules[__name__], "rank", lambda number: Rank(rank=number, local_rank=local_rank))
    heard, _ = met(1)
    assert ("bytes_per_s" in heard[0]["link"], len(bursts)) == (measured, min(tries, exchange._TRIES))


def test_every_rank_is_heard_with_its_link() -> None:
    heard, told = met(5)
    assert sorted(each["rank"] for each in heard) == [1, 2, 3, 4, 5]
    assert set(told.values()) == {None}
    assert all(each["link"]["bytes_per_s"] > 1e7 for each in heard)


def test_a_clock_that_is_ahead_is_measured() -> None:
    heard, _ = met(2, clocks={2: 90.0})
    offsets = {each["rank"]: each["link"]["offset_s"] for each in heard}
    assert abs(offsets[1]) < 1
    assert abs(offsets[2] - 90) < 1


@pytest.mark.parametrize("go", [True, False])
def test_ranks_that_wait_hear_the_verdict(*, go: bool) -> None:
    _, told = met(4, waits=True, go=go)
    assert set(told.values()) == {None if go else STOP}


def test_rank_0_waits_for_nobody_longer_than_its_patience() -> None:
    point = MeetingPoint(free_port(), "job", 3, Clock())
    assert point.wait(0.2) == []
    point.conclude(go=False)


def test_a_stranger_is_no_rank() -> None:
    """Whatever it says: garbage, a length that would fill the memory, another job's rank, or nothing."""
    port = free_port()
    point = MeetingPoint(port, "job", 1, Clock())
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02[]", b""):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
            stranger.sendall(said)
    assert meet("127.0.0.1", port, "another job", rank(1), Clock(), 2) is not None
    assert meet("127.0.0.1", port, "job", rank(1), Clock(), 10) is None
    assert [each["rank"] for each in point.wait(5)] == [1]


def test_another_program_at_the_port_is_told_from_rank_0() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 ready\r\n" * 10)
                connection.recv(1 << 16)

        threading.Thread(target=answer, daemon=True).start()
        said = meet("127.0.0.1", server.getsockname()[1], "job", rank(1), Clock(), 5)
    assert said == "another program answers there"


def test_a_port_that_is_taken_is_said_by_rank_0() -> None:
    with socket.create_server(("", 0)) as server:
        point = MeetingPoint(server.getsockname()[1], "job", 0, Clock())
    assert point.squatter == "Address already in use"
    assert point.wait(1) == []


def test_a_name_that_is_not_known_is_said() -> None:
    said = meet("no-such-host.invalid", 1, "job", rank(1), Clock(), 2)
    assert said is not None
    assert "no-such-host.invalid is not known" in said


def test_nobody_at_the_port_is_no_answer_in_time() -> None:
    assert meet("127.0.0.1", free_port(), "job", rank(1), Clock(), 0.3) == "Connection refused"


def test_a_stranger_tries_as_long_as_rank_0_waits_for_it() -> None:
    port = free_port()
    point = MeetingPoint(port, "job", 0, Clock())
    saw: list[str] = []
    assert point.wait(5, lambda: saw.append(knock("here", "127.0.0.1", port, closed=False)["saw"])) == []
    point.conclude(go=False)
    assert saw == ["joined"]


def test_rank_0_without_a_standard_input_waits_for_no_stranger() -> None:
    code = "from muster_check.ranks.store import await_stranger; await_stranger()"
    said = run(["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", code])
    assert (said.status, said.stderr) == (0, "")


def test_nobody_at_the_port_is_no_refusal() -> None:
    assert knock("here", "127.0.0.1", free_port(), closed=True)["saw"] == "unknown"


@pytest.mark.parametrize("closed", [False, True])
def test_a_connection_that_is_closed_unheard_is_a_refusal(*, closed: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close() -> None:
            server.accept()[0].close()

        threading.Thread(target=close, daemon=True).start()
        tried = knock("here", "127.0.0.1", server.getsockname()[1], closed=closed)
    assert tried == {"host": "here", "address": "127.0.0.1", "place": tried["place"], "saw": "refused"}


def test_behind_a_door_rank_0_tells_its_own_port_and_leaves_nothing() -> None:
    port = free_port()
    words = [sys.executable, "-I", "-c", compose(DOOR_PIECES), "store", str(port), str(os.getpid()), "1"]
    with subprocess.Popen(words, env={"MUSTER_DOOR_KEY": "00" * 32}) as process:
        try:
            asked: list[int] = []
            rank_1 = threading.Thread(target=lambda: asked.append(ask_port("127.0.0.1", port, 30)))
            rank_1.start()
            tell_port("127.0.0.1", port, 1234, 30)
            rank_1.join(30)
            assert asked == [1234]
            assert knock("here", "127.0.0.1", port, closed=True)["saw"] == "joined"  # as the same user of the same host
            forget_port("127.0.0.1", port)
            with pytest.raises(OSError, match="timed out"):
                ask_port("127.0.0.1", port, 0.2)
        finally:
            process.kill()
