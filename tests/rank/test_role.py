"""A rank finds the programs of its job by their names."""

from __future__ import annotations

import pytest

from muster.rank.errors import MusterError
from muster.rank.role import role

JOB = {
    "MUSTER_ROLE": "train",
    "MUSTER_SERVE_HOST": "node1",
    "MUSTER_SERVE_HOSTS": "node1,node2",
    "MUSTER_SERVE_PORT": "20001",
    "MUSTER_SERVE_URL": "http://node1:20001",
    "MUSTER_TRAIN_HOSTS": "node3",
    "MUSTER_TRAIN_PORT": "20002",
    "MUSTER_TRAIN_URL": "http://node3:20002",
}


def test_a_role_is_found_by_its_name() -> None:
    serve = role("serve", JOB)

    assert (serve.host, serve.hosts, serve.port, serve.url) == (
        "node1",
        ("node1", "node2"),
        20001,
        "http://node1:20001",
    )


def test_without_a_name_it_is_the_role_of_this_rank() -> None:
    assert role(environment=JOB).name == "train"


@pytest.mark.parametrize(("name", "job", "message"), [("a", JOB, "no role named 'a'"), ("serve", {}, "has no roles")])
def test_what_is_not_there_is_refused_with_a_hint(name: str, job: dict[str, str], message: str) -> None:
    with pytest.raises(MusterError, match=message) as caught:
        role(name, job)
    assert caught.value.hint
