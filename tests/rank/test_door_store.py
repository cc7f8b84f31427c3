"""Guards that the store of a closed job answers as torch's own does: torch's clients ask both, and compare."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from muster.launchers.base import DOOR_PIECES
from muster.render.parts import compose

pytestmark = pytest.mark.torch

PATIENCE_S = 60.0
KEYS = ["a", "b", "ü", "k" * 3000, ""]
VALUES = ["", "v", "7", "-3", "x" * 70_000, "12 apples"]
Call = tuple[str, tuple[Any, ...]]


@pytest.fixture
def place() -> Iterator[int]:
    """The port of a door, which runs as a job starts it and ends with the process that it watches."""
    with closing(socket.socket()) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    key = {"MUSTER_DOOR_KEY": bytes(32).hex()}
    begin = f'"$@" store {port} "$$" 1 & exec sleep 600'
    program = ["sh", "-c", begin, "sh", sys.executable, "-I", "-c", compose(DOOR_PIECES)]
    with subprocess.Popen(program, env={**os.environ, **key}) as rank:
        while True:
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield port
        rank.kill()


def clients(port: int, count: int = 3, timeout_s: float = PATIENCE_S) -> list[Any]:
    from torch.distributed import TCPStore

    words: dict[str, Any] = {"is_master": False, "wait_for_workers": False, "timeout": timedelta(seconds=timeout_s)}
    return [TCPStore("127.0.0.1", port, **words) for _ in range(count)]


@pytest.fixture
def both(place: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Clients of the door, and as many of torch's own store."""
    from torch.distributed import TCPStore

    own = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield clients(place), clients(own.port)
    del own  # and with it the store


def outcome(client: Any, call: Call) -> Any:
    name, words = call
    try:
        return getattr(client, name)(*words)
    except Exception as error:  # noqa: BLE001  # whatever torch raises
        return type(error).__name__


def any_call(chance: random.Random, names: set[str]) -> Call:
    key, other = chance.choices(KEYS, k=2)
    value, second = chance.choices(VALUES, k=2)
    calls: list[Call] = [
        ("set", (key, value)),
        ("compare_set", (key, value, second)),
        ("append", (key, value)),
        ("check", ([key, other],)),
        ("num_keys", ()),
        ("delete_key", (key,)),
        ("add", (f"n{chance.randrange(3)}", chance.randrange(-(2**40), 2**40))),
        ("multi_set", ([key, other], [value, second])),
        ("queue_push", (f"q{key}", value)),
        ("queue_len", (f"q{key}",)),
        ("queue_pop", (f"q{key}", False)),
        ("list_keys", ()),
        ("barrier", (f"meet{chance.randrange(9)}", 1)),
    ]
    return chance.choice([call for call in calls if call[0] in names])


def test_random_questions_have_the_answers_of_torchs_own_store(both: tuple[list[Any], list[Any]]) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    chance = random.Random(seed)  # noqa: S311
    ours, theirs = both
    known = {name for name in dir(ours[0]) if not name.startswith("_")}
    asked = 0
    for _ in range(1500):
        call, number = any_call(chance, known), chance.randrange(len(ours))
        answers = [outcome(some[number], call) for some in (ours, theirs)]
        if call[0] == "list_keys":
            answers = [sorted(answer) for answer in answers]
        assert answers[0] == answers[1], (seed, call)
        assert ours[number].num_keys() == theirs[number].num_keys()  # and both have done what has no answer
        present = [key for key in KEYS if theirs[0].check([key])]
        if present and chance.random() < 0.3:
            asked += 1
            assert ours[number].multi_get(present) == theirs[number].multi_get(present), (seed, call)
            assert ours[number].get(present[0]) == theirs[number].get(present[0]), (seed, call)
    assert asked > 100


def later(act: Callable[[], Any]) -> threading.Thread:
    def wait_and_act() -> None:
        time.sleep(0.3)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


@pytest.mark.parametrize("whose", [0, 1], ids=["ours", "theirs"])
def test_who_waits_is_woken_by_each_way_to_make_a_key(both: tuple[list[Any], list[Any]], whose: int) -> None:
    waits, acts, _ = both[whose]
    ways: list[Callable[[str], Any]] = [
        lambda key: acts.set(key, "1"),
        lambda key: acts.add(key, 1),
        lambda key: acts.compare_set(key, "", "1"),
        lambda key: acts.append(key, "1"),
        lambda key: acts.multi_set([key], ["1"]),
    ]
    for number, way in enumerate(ways):
        thread = later(lambda number=number, way=way: way(f"late{number}"))  # type: ignore[misc]
        assert waits.get(f"late{number}") == b"1"
        thread.join()
    thread = later(lambda: (acts.set("one", ""), acts.set("two", "")))
    waits.wait(["one", "late0", "two"])
    thread.join()
    if hasattr(waits, "queue_pop"):
        thread = later(lambda: acts.queue_push("line", "first"))
        assert waits.queue_pop("line") == b"first"
        thread.join()


@pytest.mark.parametrize("whose", [0, 1], ids=["ours", "theirs"])
def test_all_meet_at_a_barrier(both: tuple[list[Any], list[Any]], whose: int) -> None:
    if not hasattr(both[whose][0], "barrier"):
        pytest.skip("by design: this torch has no barrier in its store")
    last: list[float] = []

    def meet(client: Any) -> None:
        client.barrier("all", 3)
        last.append(time.monotonic())

    threads = [threading.Thread(target=meet, args=(client,)) for client in both[whose][:2]]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    assert not last
    both[whose][2].barrier("all", 3)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(last) == 2


def test_who_waits_in_vain_hears_of_it_and_goes_on(place: int) -> None:
    short, other = clients(place, 2, timeout_s=0.5)
    with pytest.raises(Exception, match="timeout"):
        short.get("never")
    other.set("never", "now")
    other.set("x", "y")
    assert short.get("x") == b"y"  # nothing of the answer that came too late
    assert short.get("never") == b"now"


def test_a_client_that_leaves_while_it_waits_disturbs_nobody(place: int) -> None:
    hello = b"\0" + (0x3C85F7CE).to_bytes(4, "little")
    key = len(b"/late").to_bytes(8, "little") + b"/late"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", place)) as leaver:
            leaver.sendall(hello + b"\6" + (1).to_bytes(8, "little") + key)
    stays, acts = clients(place, 2)
    thread = later(lambda: acts.set("late", "1"))
    assert stays.get("late") == b"1"
    thread.join()


@pytest.mark.parametrize(
    "words",
    [b"\0????", b"\0" + (0x3C85F7CE).to_bytes(4, "little") + b"\xff", b"\1" + b"\xff" * 8],
    ids=["wrong number", "unknown word", "too long"],
)
def test_other_words_close_their_own_connection_alone(place: int, words: bytes) -> None:
    client = clients(place, 1)[0]
    hello = b"" if words[0] == 0 else b"\0" + (0x3C85F7CE).to_bytes(4, "little")
    with socket.create_connection(("127.0.0.1", place), timeout=PATIENCE_S) as stray:
        stray.sendall(hello + words)
        assert stray.recv(10) == b""
    client.set("a", "b")
    assert client.get("a") == b"b"


def test_a_large_value_passes_whole(both: tuple[list[Any], list[Any]]) -> None:
    ours, _ = both
    value = os.urandom(6 << 20)
    ours[0].set("large", value)
    assert ours[1].get("large") == value
