"""Guards that joining asks no name server about the other ranks, and leaves the process's name service as it was."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from muster.rank.errors import WireupError
from muster.rank.store import _hosts_services, files_only, numeric, seconds_apart

BENCH = Path(__file__).parents[2] / "benchmarks" / "library.py"


def test_a_name_that_nobody_knows_is_refused() -> None:
    with files_only(), pytest.raises(WireupError, match="'no-such-host', has no address here"):
        numeric("no-such-host", 29500)
    with pytest.raises(WireupError, match="has no address here"):
        numeric("a" * 70 + "ü", 29500)
    assert numeric("127.0.0.1", 1) == "127.0.0.1"
    assert numeric("::1", 1) == "::1"
    assert numeric("localhost", 1) in ("127.0.0.1", "::1")


def test_only_a_large_world_knocks_spread_over_a_while_unless_it_is_asked_for() -> None:
    assert (seconds_apart({}, 4), seconds_apart({}, 10_000)) == (0.0, 1e-4)
    assert seconds_apart({"MUSTER_STAGGER": "0.01"}, 4) == 0.01
    assert seconds_apart({"MUSTER_STAGGER": "0"}, 10_000) == 0.0
    for wrong in ("a while", "-1", "60", "nan"):
        with pytest.raises(WireupError, match=f"MUSTER_STAGGER={wrong} is not a time between two ranks"):
            seconds_apart({"MUSTER_STAGGER": wrong}, 4)


def test_the_systems_own_line_is_put_back(tmp_path: Path) -> None:
    conf = tmp_path / "nsswitch.conf"
    conf.write_text("passwd: files\n # hosts: nothing\nhosts:\tfiles  mdns4 [NOTFOUND=return] dns # as it comes\n")
    assert _hosts_services(str(conf)) == "files  mdns4 [NOTFOUND=return] dns"
    conf.write_text("passwd: files\n")
    assert _hosts_services(str(conf)) == _hosts_services(str(tmp_path / "missing")) == "dns [!UNAVAIL=return] files"


@pytest.mark.torch
@pytest.mark.parametrize("resolver", ["slow", "silent"])
def test_joining_asks_no_name_server(resolver: str) -> None:
    """Counted in a network namespace whose only name server is ours; torch's own way is the near miss."""
    pytest.importorskip("torch")
    options = ["--ranks", "4", "--rounds", "1", "--resolver", resolver, "--json"]
    done = subprocess.run(
        [sys.executable, str(BENCH), *options, "--how", "world", "--how", "raced"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    questions = json.loads(done.stdout)["questions"]
    assert questions["world"] == 0
    assert questions["raced"] > 0


def test_within_files_only_nothing_is_asked_and_afterwards_names_are_as_before() -> None:
    before = socket.getaddrinfo("localhost", 1)
    with files_only():
        assert socket.getnameinfo(("127.0.0.1", 1), 0)[0]
        inside = threading.Thread(target=socket.getaddrinfo, args=("localhost", 1))
        inside.start()
        inside.join()
    assert socket.getaddrinfo("localhost", 1) == before
