"""Words of the command line → request: the command is never parsed, errors name the option, files know their line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import MusterError, ProfileError, RequestError
from muster.job.option import OriginKind, ValueOrigin
from muster.job.options import parse, request_from
from muster.job.request import Request, options_of
from muster.job.settings import merge_settings


def request(
    *words: str, files: list[tuple[str, str]] | None = None, environment: dict[str, str] | None = None
) -> Request:
    values, origins, command = parse(words)
    return request_from(merge_settings(files or [], environment or {}), values, origins, command)


@given(st.lists(st.text(min_size=1).filter(lambda word: not word.startswith("-")), min_size=1), st.lists(st.text()))
def test_everything_from_the_first_word_that_is_no_option_is_the_command(head: list[str], tail: list[str]) -> None:
    asked = request("-N", "2", *head, *tail)

    assert asked.command == (*head, *tail)
    assert asked.nodes == 2


@given(st.lists(st.text()))
def test_everything_after_two_dashes_is_the_command(words: list[str]) -> None:
    assert request("--nodes=3", "--", *words).command == tuple(words)


@pytest.mark.parametrize("words", [("-N2",), ("-N", "2"), ("-N=2",), ("--nodes", "2"), ("--nodes=2",)])
def test_a_value_may_be_written_in_every_way_that_slurm_takes(words: tuple[str, ...]) -> None:
    assert request(*words, "x").nodes == 2


def test_every_option_without_a_value_says_what_it_takes() -> None:
    for option in options_of().values():
        if not option.is_switch:
            with pytest.raises(RequestError, match="needs a value"):
                parse([option.flags[0]])


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--nods", "2"], "no option --nods", "--nodes"),
        (["-N", "0"], "-N: '0' is not a count", "from 1 up"),
        (["-N", "two"], "is not a count", "from 1 up"),
        (["-N", "²"], "is not a count", "from 1 up"),
        (["-t", "1:2:3:4"], "is not a time limit", "days-hours"),
        (["-t", "tomorrow"], "is not a time limit", "days-hours"),
        (["--mem", "lots"], "is not a memory size", "64G"),
        (["-J", "a\nb"], "control character", "one line"),
        (["--env", "1X=2"], "variable's name", "KEY=VALUE"),
        (["--launcher", "srn"], "is not a known value", "srun"),
        (["--master-port", "80"], "is not a port", "1024"),
        (["--port-range", "30000-20000"], "is not a range", "LOW-HIGH"),
        (["--exclusive=yes"], "takes no value", "alone"),
    ],
)
def test_a_wrong_word_is_named_with_what_to_do(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        parse([*words, "--", "x"])

    assert hint in (caught.value.hint or "")


def test_settings_are_layered_and_know_where_they_came_from() -> None:
    asked = request(
        "-N",
        "4",
        "x",
        files=[
            ("/etc/m.toml", "account = 'a'\nqos = 'long'\nnodes = 2"),
            ("user.toml", "\naccount = 'b'\nenv = ['A=1']"),
        ],
        environment={"MUSTER_PARTITION": "gpu"},
    )

    assert (asked.account, asked.qos, asked.nodes, asked.partition, asked.env) == ("b", "long", 4, "gpu", ("A=1",))
    assert asked.origin("account") == "user.toml:2"
    assert asked.origin("qos") == "/etc/m.toml:2"
    assert asked.origin("nodes") == "-N 4"
    assert asked.origin("partition") == "MUSTER_PARTITION"


def test_lists_of_files_and_options_add_up() -> None:
    assert request("--env", "B=2", "x", files=[("f", "env = ['A=1']")]).env == ("A=1", "B=2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acount = 'a'", "no such setting"),
        ("nodes = 'many'", "is not a count"),
        ("nodes = [1, 2]", "one value"),
        ("nodes = true", "is not a count"),
        ("requeue = 'maybe'", "true or false|yes|no"),
        ("account = ", "Invalid value"),
        ("[env]\nA = '1'", "one value"),
    ],
)
def test_a_settings_file_with_a_mistake_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message) as caught:
        merge_settings([("muster.toml", text)], {})

    assert str(caught.value).startswith("muster.toml")
    assert caught.value.hint


@given(st.text())
def test_no_settings_text_is_a_traceback(text: str) -> None:
    with suppress(MusterError):
        merge_settings([("muster.toml", text)], {})


def test_variables_are_settings_outside_a_rank_only() -> None:
    told = {"MUSTER_LAUNCHER": "srun", "MUSTER_GRACE": "3"}

    assert merge_settings([], told)["launcher"] == ("srun", ValueOrigin(OriginKind.VARIABLE, "MUSTER_LAUNCHER"))
    assert merge_settings([], {**told, "MUSTER_JOB": "7"}) == {}
    assert merge_settings([], {"MUSTER_ROLE": "serve", "MUSTER_PORT": "4"}) == {}


@pytest.mark.parametrize("text", ["true", "'true'", "'yes'", "1"])
def test_a_switch_of_a_settings_file_is_a_word_of_two(text: str) -> None:
    assert merge_settings([("muster.toml", f"requeue = {text}")], {})["requeue"][0] is True
