"""`muster url` prints an address only where a program may listen, and says how it is reached."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from muster.cli.url import refuses, way_to
from muster.errors import RequestError
from muster.follow.roles import RoleStand, stands_of

READY = RoleStand("serve", ("n1", "n2"), 1, 20001, "grpc://n1:20001", "ready")


def test_the_tunnel_leads_to_the_first_host_by_the_scheme_of_the_role() -> None:
    said = way_to("9", READY, False, "login1")
    assert said == "from your own machine: ssh -N -L 20001:n1:20001 login1, then grpc://localhost:20001"


def test_of_a_role_that_has_begun_nobody_knows_whether_it_listens(tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    place = {"nodes": ["n1"], "ranks": 1, "port": 20001, "url": "http://n1:20001"}
    text = json.dumps({"main": {**place, "ready": "joined"}, "serve": {**place, "ready": "port"}, "old": place})
    (tmp_path / "roles" / "roles.json").write_text(text)
    events = [{"role": name, "what": "ready"} for name in ("main", "serve", "old")]
    (tmp_path / "roles" / "events").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    said = [way_to("9", stand, False, "login1") for stand in stands_of(tmp_path)]
    assert ["whether it listens is not known" in each for each in said] == [True, False, False]


def test_a_port_at_which_nothing_listens_is_known_and_a_silent_host_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = replace(READY, hosts=("127.0.0.1",), port=server.getsockname()[1])
        assert not refuses(listening)
    assert refuses(listening)
    assert not refuses(replace(listening, hosts=("no-such-host.invalid",)))


@pytest.mark.parametrize("stand", ["", "waits"])
def test_a_role_that_may_come_is_said_to_be_not_ready(stand: str) -> None:
    assert way_to("9", replace(READY, stand=stand), False, "login1").startswith("role serve is not ready: ")


@pytest.mark.parametrize(
    ("stand", "is_over", "what"),
    [("ended", False, "role serve of job 9"), ("failed", False, "role serve of job 9"), ("ready", True, "job 9")],
)
def test_no_address_is_printed_of_what_has_ended(stand: str, is_over: bool, what: str) -> None:
    with pytest.raises(RequestError, match=f"{what} has ended: no program listens at grpc://n1:20001") as caught:
        way_to("9", replace(READY, stand=stand), is_over, "login1")
    assert caught.value.hint == "muster why 9"
