"""The roles of a job as they are written: words of a command line and a TOML file become each other."""

from __future__ import annotations

import pytest

from muster.errors import ProfileError, RequestError
from muster.job.job_file import file_of_words, words_of_file
from muster.job.options import read_words, request_from
from muster.job.request import Request, options_of

FILE = """\
account = "proj"
time = "4:00:00"

[role.serve]
nodes = 1
gpus_per_node = 4
port = "http"
ready = "http://{host}:{port}/health"
command = "vllm serve MODEL --port {port}"

[role.data]
beside = "train"
ntasks-per-node = 1
command = ["python", "data.py", "a b"]

[role.train]
nodes = 3
after = ["serve", "data"]
main = true
env = ["A=1", "B=2"]
command = ["python", "train.py", "--url", "{serve.url}"]
"""


def asked(*words: str) -> Request:
    """The request of a command line."""
    typed = read_words(words, options_of())
    return request_from({}, typed.values, typed.origins, typed.rest)


def test_what_stands_before_the_first_role_holds_for_all() -> None:
    job = asked("-t", "60", "-g", "2", "--role", "a", "-g", "1", "--", "x", "--role=b", "--", "y", "--", "-z")

    assert [(role.role, role.gpus_per_node, role.command) for role in job.roles] == [
        ("a", 1, ("x",)),
        ("b", 2, ("y", "--", "-z")),
    ]
    assert job.command == ()


def test_lists_add_up_over_what_holds_for_all() -> None:
    job = asked("--env", "A=1", "--role", "a", "--env", "B=2", "--", "x", "--role", "b", "--", "y")

    assert [role.env for role in job.roles] == [("A=1", "B=2"), ("A=1",)]


def test_a_word_of_a_command_is_no_role_where_no_role_began() -> None:
    job = asked("-N", "2", "--", "python", "t.py", "--role", "admin")

    assert job.roles == ()
    assert job.command == ("python", "t.py", "--role", "admin")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--role", "a", "--", "x", "--role", "a", "--", "y"), "two roles are called a"),
        (("--role", "A", "--", "x"), "'A' is not a name"),
        (("--role", "role", "--", "x"), "MUSTER_ROLE_PORT and the like are names of Muster's own"),
        (("--role", "a", "--nods", "2", "--", "x"), "role a: there is no option --nods"),
        (("--role", "a", "--", "x", "--role"), "--role needs a value"),
        (("--role", "a", "--port", "http:", "--", "x"), "names no number"),
        (("--role", "a", "--after", "b,,c", "--", "x"), "not a list of names"),
    ],
)
def test_what_cannot_be_roles_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        asked(*words)
    assert caught.value.hint


def test_a_file_is_the_same_job_as_its_words() -> None:
    options, rest = words_of_file(FILE, "job.toml")
    job = asked(*options, *rest)

    assert job.account == "proj"
    serve, data, train = job.roles
    assert serve.command == ("vllm", "serve", "MODEL", "--port", "{port}")
    assert data.command == ("python", "data.py", "a b")
    assert train.after == ("serve", "data")
    assert train.main
    assert train.env == ("A=1", "B=2")


def test_words_become_a_file_and_the_file_the_same_words() -> None:
    options, rest = words_of_file(FILE, "job.toml")
    text = file_of_words((*options, *rest))
    again = words_of_file(text, "again.toml")

    assert again == (options, rest)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("role = 3", "a role is a table"),
        ("[role]\na = 3", "a role is a table"),
        ("command = 'x'\n[mem]\na = 1", "one value is expected"),
        ("x = ", "job.toml"),
        ("nods = 3\ncommand = 'x'", "no such option"),
        ("[role.a]\nnods = 3\ncommand = 'x'", r"role\.a\.nods: no such option"),
        ("command = 'x'\n[role.a]\ncommand = 'y'", "each command belongs to one"),
        ("nodes = 3", "neither a command nor a role"),
        ("main = 3\ncommand = 'x'", "true or false"),
        ("nodes = [1, 2]\ncommand = 'x'", "one value is expected"),
        ("command = 3", "a text, or a list of texts"),
        ('command = "x \'y"', "cannot be split"),
    ],
)
def test_a_file_that_is_no_job_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        words_of_file(text, "job.toml")
