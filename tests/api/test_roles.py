"""Several programs in one job, from Python."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api.options import read_options
from muster.errors import RequestError, UnknownName

ROLES = {
    "serve": {"command": ["serve", "--port", "{port}"], "nodes": 1},
    "train": {"command": "train {serve.url}", "nodes": 3, "after": ["serve"], "main": True, "env": {"A": "1"}},
}


def test_roles_are_the_words_that_would_be_typed() -> None:
    asked = read_options("submit", None, {"time": 60, "roles": ROLES})

    assert asked.typed == (
        *("--time=60", "--role", "serve", "--nodes=1", "--", "serve", "--port", "{port}"),
        *("--role", "train", "--nodes=3", "--after=serve", "--main", "--env=A=1", "--", "train", "{serve.url}"),
    )
    assert [role.name for role in asked.values["roles"]] == ["serve", "train"]


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        (None, {"roles": 3}, "not a table of tables"),
        (None, {"roles": {"a": 3}}, "not a table of tables"),
        (["x"], {"roles": ROLES}, "each role has a command of its own"),
        (None, {}, "no command was given"),
        (None, {"file": "job.toml"}, "muster.submit does not take file"),
    ],
)
def test_what_is_no_job_is_refused(command: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        read_options("submit", command, options)
    assert caught.value.hint


def test_an_option_of_a_role_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownName):
        read_options("submit", None, {"roles": {"a": {"nods": 3, "command": "x"}}})
