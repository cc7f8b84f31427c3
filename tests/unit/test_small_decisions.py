"""Small decisions of the core, each by the smallest value that it decides on; older Pythons have their ways too."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster import older, parts
from muster.api.hints import hints_shown
from muster.errors import MachineLacks, MusterError, ProfileError, RequestError
from muster.job.home import at_home
from muster.job.job_file import _command
from muster.job.option import parse_count, parse_silence
from muster.job.request import Request
from muster.job.settings import _value
from muster.model import pieces
from muster.model.pieces import Pieces
from muster.model.words import WIDTH, noted
from muster.policy.masks import _cores_around
from muster.probe.judge import _meeting, stopped_at
from muster.render.script import _unset_first
from muster.runner import _may_not_run, _not_there, _refused_by_kernel
from muster.sites import load as loading
from muster.sites.load import _unknown_site
from muster.sites.places import toml_lines
from muster.sites.read import _found
from muster.sites.text import check_version, read_text
from muster.slurm.cluster_answers import _word

# --- older Pythons ---


@pytest.fixture(params=[(3, 9), tuple(sys.version_info[:2])], ids=["3.9", "this"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return a version of Python: `older` takes the ways of it."""
    asked = ("builtin_module_names", "stdlib_module_names", "base_exec_prefix")
    names = {name: getattr(sys, name) for name in asked if hasattr(sys, name)}
    monkeypatch.setattr(older, "sys", SimpleNamespace(version_info=request.param, modules=sys.modules, **names))
    found: tuple[int, int] = request.param
    return found


def test_pairs_are_of_sequences_of_one_length(version: tuple[int, int]) -> None:
    assert version
    assert list(older.zip_equal([1, 2], "ab")) == [(1, "a"), (2, "b")]
    for first, second in (([1], "ab"), ([1, 2], "a")):
        with pytest.raises(ValueError, match="zip"):
            list(older.zip_equal(first, second))


def test_a_field_whose_type_is_no_text_has_that_type(version: tuple[int, int]) -> None:
    assert version
    kind = type("Kind", (), {"__annotations__": {"size": int}})
    assert older.type_hints(kind) == {"size": int}


def test_the_standard_library_and_groups_are_the_same_in_the_old_way(version: tuple[int, int]) -> None:
    assert {"os", "json", "math", "_thread"} <= older.standard_modules()
    assert not {"pytest", "muster"} & older.standard_modules()
    assert older.options_of_group(own_group=False) == {}
    made = older.options_of_group(own_group=True)
    assert set(made) == {"process_group" if version >= (3, 11) else "preexec_fn"}
    with subprocess.Popen(["sleep", "9"], **made) as child:
        assert os.getpgid(child.pid) == child.pid
        child.kill()


@pytest.mark.skipif(sys.version_info < (3, 10), reason="by design: the newer way is not there to compare with")
def test_entry_points_are_those_of_their_group(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    group = "console_scripts"
    expected = {each.name for each in entry_points(group=group)}
    if version < (3, 10):
        old_way = {group: [SimpleNamespace(name=name) for name in expected]}
        monkeypatch.setattr("importlib.metadata.entry_points", lambda: old_way)
    assert {each.name for each in older.entry_points_of(group)} == expected
    assert older.entry_points_of("no.such.group") == ()


def test_a_folder_brings_a_group_if_a_package_in_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("a-1.dist-info", "[x.y]\n"), ("b-1.dist-info", ""), ("c", "[z]\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "entry_points.txt").write_text(text)
    (tmp_path / "d-1.dist-info").mkdir()
    assert [parts._brings(str(tmp_path), group) for group in ("x.y", "x", "z")] == [True, False, False]
    monkeypatch.chdir(tmp_path)
    assert parts._brings("", "x.y")
    assert not parts._brings(str(tmp_path / "gone"), "x.y")


# --- programs that do not start ---


def test_a_program_that_may_not_be_run_is_told_from_a_folder_that_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "chmod +x" in (_may_not_run(str(tmp_path / "x")).hint or "")
    closed = tmp_path / "closed"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != closed)
    assert f"may not enter {closed}" in str(_may_not_run(str(closed / "inner/x")))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "chmod +x" in (_may_not_run("x").hint or "")


def test_a_folder_that_is_not_there_is_told_from_a_program(tmp_path: Path) -> None:
    error = FileNotFoundError()
    assert "the program 'x' is not on PATH" in str(_not_there("x", error, None))
    assert "the program 'x' is not on PATH" in str(_not_there("x", error, tmp_path))
    assert "the working directory" in str(_not_there("x", error, tmp_path / "gone"))


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EAGAIN, "no more processes"),
        (errno.EMFILE, "no more files"),
        (errno.ENFILE, "no more files"),
        (errno.ENOEXEC, "cannot be started"),
        (errno.E2BIG, "words of 7 bytes and an environment of 4 are more"),
    ],
)
def test_what_the_kernel_refuses_is_a_sentence(number: int, says: str) -> None:
    assert says in str(_refused_by_kernel(["a", "bcde"], {"A": "b"}, OSError(number, "x")))
    other = OSError(errno.EPERM, "x")
    assert _refused_by_kernel(["a"], None, other) is other


def test_a_hint_is_added_to_an_error_once() -> None:
    def shown(error: MusterError) -> str:
        with pytest.raises(type(error)) as raised, hints_shown(), hints_shown():
            raise error
        return str(raised.value)

    assert shown(RequestError("no", hint="do")) == "no\n\nhint: do"
    assert shown(MachineLacks("x", "no", hint="")) == "no"


# --- what a person typed ---


@pytest.mark.parametrize(("typed", "path"), [("~", "/h"), ("~/a", "/h/a"), ("a~", "a~"), ("/a", "/a")])
def test_a_leading_tilde_is_the_home(typed: str, path: str) -> None:
    asked = Request(command=("x",), chdir=typed)
    assert at_home(asked, "/h").chdir == path
    with pytest.raises(RequestError, match="another user"):
        at_home(Request(command=("x",), chdir="~ada/x"), "/h")


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, []), ("a 'b c'", ["a", "b c"]), (["a", "b c"], ["a", "b c"]), ([1], None), (3, None), ("'", None)],
)
def test_a_command_of_a_file_is_a_text_or_a_list_of_texts(value: Any, words: list[str] | None) -> None:
    if words is None:
        with pytest.raises(ProfileError):
            _command(value, "f", "command")
    else:
        assert _command(value, "f", "command") == words


def test_a_count_and_a_silence_have_limits() -> None:
    parse = parse_count(1, 9)
    assert (parse("1"), parse("9")) == (1, 9)
    for typed, says in (("0", "is not a count"), ("x", "is not a count"), ("10", "is too large")):
        with pytest.raises(RequestError, match=says):
            parse(typed)
    assert (parse_silence("off"), parse_silence("0"), parse_silence("5s"), parse_silence("1m")) == (0, 0, 5, 60)
    for typed in ("4s", "UNLIMITED"):
        with pytest.raises(RequestError, match="after which a job hangs"):
            parse_silence(typed)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("True", True), ("yes", True), ("0", False), ("FALSE", False), ("no", False), ("x", None)],
)
def test_a_switch_in_a_file_is_true_or_false(text: str, value: bool | None) -> None:
    option: Any = SimpleNamespace(is_switch=True)
    if value is None:
        with pytest.raises(RequestError, match="neither true nor false"):
            _value(option, [text], "key")
    else:
        assert _value(option, [text], "key") is value


# --- texts ---


def test_a_line_that_is_longer_than_any_is_broken_and_no_shorter_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_LONGEST_LINE_BYTES", 4)
    whole, broken = Pieces(), Pieces()
    assert (whole.feed(b"abcd"), whole.end().rstrip(b"\n")) == (b"", b"abcd")
    assert broken.feed(b"abcde").rstrip(b"\n") == b"abcde"
    assert broken.end() == b""


def test_a_note_stands_behind_its_line_while_it_fits() -> None:
    text = "x" * (WIDTH - 4 - len("  # note"))
    assert noted(text, "note") == (f"{text}  # note",)
    assert noted(f"{text}x", "note") == ("# note", f"{text}x")
    assert noted("a\nb", "note") == ("# note", "a\nb")
    assert noted("a", "") == ("a",)


@pytest.mark.parametrize(
    ("line", "word"),
    [(" A=1 B=2 A=3", "1"), ("A=1 A=3", "3"), (" BA=1", None), (" A=1", "1"), (" A= B=1", ""), ("", None)],
)
def test_the_first_word_of_a_name_counts(line: str, word: str | None) -> None:
    assert _word(line, "A") == word


def test_a_profile_is_read_up_to_its_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.sites.text._MAX_BYTES", 4)
    (tmp_path / "p").write_text("abcd")
    assert read_text(tmp_path / "p") == "abcd"
    (tmp_path / "p").write_text("abcde")
    for path, says in (
        (tmp_path / "p", "too large"),
        (tmp_path / "gone", "no such file"),
        (tmp_path, "cannot be read"),
    ):
        with pytest.raises(ProfileError, match=says):
            read_text(path)
    for table in ({}, {"muster_site": 1}, {"muster_site": "9"}):
        check_version(table, "", "f")
    with pytest.raises(ProfileError, match="has format 99"):
        check_version({"muster_site": 99}, "muster_site = 99\n", "f")


_VALUES: tuple[Any, ...] = ({}, [], None, 3)


def test_a_value_is_shown_up_to_sixty_letters() -> None:
    assert _found("x" * 58) == f"'{'x' * 58}'"
    assert _found("x" * 59) == f"'{'x' * 56}…"
    assert [_found(value) for value in _VALUES] == ["a table", "a list", "None", "3"]


def test_a_line_within_a_long_text_names_no_key() -> None:
    text = 'a = """\nb = 1\n"""\nc = [\n  "d = 1",\n]\n[t]\ne = 2\n'
    assert toml_lines(text) == {("a",): 1, ("c",): 4, ("t",): 7, ("t", "e"): 8}


def test_a_name_that_several_titles_have_names_all_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: Any = [SimpleNamespace(name=name, title="Big Cluster") for name in "abc"]
    monkeypatch.setattr(loading, "_MOST_MEANT", 3)
    assert "a" in (_unknown_site("cluster", heads).hint or "")
    few = _unknown_site("cluster", heads).hint
    monkeypatch.setattr(loading, "_MOST_MEANT", 2)
    assert _unknown_site("cluster", heads).hint != few


# --- plans ---


@pytest.mark.parametrize(
    ("numa", "with_gpu", "domain", "cores"),
    [
        (("0-1", "2-3", "4-5", "6-7"), {1, 3}, 1, (0, 1, 2, 3)),
        (("0-1", "2-3", "4-5", "6-7"), {0, 3}, 3, (4, 5, 6, 7)),
        (("0-1", "2-3", "4-5"), {0, 2}, 2, (4, 5)),
        (("0-1", "2-3", "4-5", "6-7"), {0, 1}, 1, (2, 3)),
        (("0-1", "2-3"), {0, 1}, 1, (2, 3)),
    ],
)
def test_cores_of_domains_without_a_gpu_go_to_the_one_beside_them(
    numa: tuple[str, ...], with_gpu: set[int], domain: int, cores: tuple[int, ...]
) -> None:
    assert _cores_around(numa, with_gpu, domain) == cores


def test_variables_that_are_unset_stand_first_unless_one_before_speaks_of_them() -> None:
    made = plan("-N", "2", "--env", "A=1", "--", "python", "t.py").variables[0]
    set_a, unset_b, passed, unset_a = (
        replace(made, name="A", value="1", pass_on=False),
        replace(made, name="B", value=None, pass_on=False),
        replace(made, name="C", value="", pass_on=True),
        replace(made, name="A", value=None, pass_on=False),
    )
    assert _unset_first((set_a, passed, unset_b)) == [unset_b, set_a, passed]
    assert _unset_first((set_a, unset_a)) == [set_a, unset_a]


def test_a_probe_names_what_stopped_the_script_and_where_ranks_meet() -> None:
    made = replace(plan("-N", "2", "--module", "m", "--", "python", "t.py"), node_prologue=("make", "x"))
    assert stopped_at(made, "nothing of it") is None
    stopped = stopped_at(made, "muster: error: the node prologue failed on n1")
    assert stopped is not None
    assert (stopped.key, stopped.text) == ("commands", "`make x` failed on a node")
    failure = next(prelude.failure for prelude in made.prelude if prelude.failure)
    assert stopped_at(made, f"x {failure} y") is not None

    def met(*environments: dict[str, str]) -> bool:
        answers: Any = [SimpleNamespace(environment=environment) for environment in environments]
        return [point.ok for point in _meeting(made, answers)] == [True]

    here = {"MASTER_ADDR": "n1", "MASTER_PORT": "1"}
    assert met(here, here)
    assert not met(here, {**here, "MASTER_PORT": "2"})
    assert not met({"MASTER_ADDR": "n1"}, {"MASTER_ADDR": "n1"})
    assert not met({"MASTER_PORT": "1"})


@pytest.mark.parametrize("absent", [(), ("_sha2", "_sha256")])
def test_a_digest_is_the_same_by_whichever_part_of_python(
    absent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    assert older.sha256_of(b"abc")[:16] == "ba7816bf8f01cfea"
