"""Guards the way out that `lab up --internet` makes: it is there for every host, and gone with the lab."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from muster.errors import MachineLacks
from muster.runner import checked
from muster_lab import internet
from muster_lab.requirements import check_programs
from muster_lab.spec import LabSpec
from plugins.labs import Lab, Person

from .processes import of_the_machine

pytestmark = pytest.mark.lab

_FETCH = "import sys, urllib.request as web; print(web.urlopen(sys.argv[1], timeout=20).read().decode())"


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of a server on this machine's loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("who", ["root", "ordinary"])
def test_every_host_has_a_way_out_which_is_gone_with_the_lab(
    new_lab: Callable[..., Lab], request: pytest.FixtureRequest, tmp_path: Path, who: str
) -> None:
    if who == "root" and os.geteuid() != 0:
        pytest.skip("by design: only root can make root's lab")
    person: Person = request.getfixturevalue("tester" if who == "root" else "ordinary_person")
    before = of_the_machine()
    (tmp_path / "word").write_text("from outside")
    with served(tmp_path) as port:
        lab = new_lab("-N", "2", "--internet", person=person)
        fetch = ["python3", "-c", _FETCH, f"http://{internet.MACHINE}:{port}/word"]
        assert checked(lab.exec(fetch)).stdout == "from outside\n"
        said = checked(lab.exec(["srun", "-N2", "--ntasks-per-node=1", *fetch])).stdout
        assert said == "from outside\n" * 2
        checked(lab.muster("fault", "kill-node", "node2"))
        checked(lab.muster("fault", "restore"))
        assert checked(lab.exec(fetch, host="node2")).stdout == "from outside\n"
    assert checked(lab.exec(["cat", "/etc/resolv.conf"], host="node1")).stdout == f"nameserver {internet.RESOLVER}\n"
    status = json.loads(checked(lab.muster("status", "--json")).stdout)
    assert status["internet"] is True
    assert any("reaches what this machine reaches" in line for line in status["faked"])
    checked(lab.muster("down"))
    assert of_the_machine() == before


def test_without_it_there_is_none(lab: Lab) -> None:
    refused = lab.exec(["python3", "-c", _FETCH, f"http://{internet.MACHINE}:80/"], host="node1")
    assert "Network is unreachable" in refused.stderr


def test_what_it_needs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match="this machine lacks slirp4netns") as lacking:
        check_programs(LabSpec(internet=True), ordinary_user=False, find=lambda name: None if "slirp" in name else name)
    assert "apt-get install --yes --no-install-recommends slirp4netns" in str(lacking.value.hint)
    monkeypatch.setattr(internet, "_TUNNEL", tmp_path / "tun")
    with pytest.raises(MachineLacks, match="is closed to you"):
        internet.check_way_out()
