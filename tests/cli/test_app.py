"""Guards the front door: the first page, exit statuses, and that whatever goes wrong becomes words on stderr."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import __version__
from muster.cli import app, verbs
from muster.cli.command_line import CommandLine
from muster.cli.verbs import VERBS, Verb
from muster.errors import CommandFailed, MachineLacks, MusterError, SchedulerSilent, UnknownName
from muster.runner import ProgramResult, run
from plugins.forked import run_muster

NOTHING: dict[str, int] = {}
MUSTER = Path(sys.executable).with_name("muster")


def muster(*words: str) -> ProgramResult:
    return run_muster(words, env=os.environ)


@pytest.fixture
def verb_that(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Makes `muster try` do what the test says."""

    def install(act: Callable[[], int]) -> None:
        command = CommandLine(name="try", summary="for a test", start=lambda words: act())
        monkeypatch.setitem(sys.modules, "muster_trial", SimpleNamespace(COMMAND=command))
        monkeypatch.setattr(verbs, "VERBS", (Verb("try", "muster_trial", "for a test"),))

    return install


def test_help_is_an_answer_and_nothing_typed_asks_what_can_be_done_here() -> None:
    assert (muster("--help").status, muster("-h").status, muster().status) == (0, 0, 0)
    assert "muster run" in muster().stdout


def test_the_first_page_names_every_verb_with_its_line() -> None:
    words = " ".join(muster("--help").stdout.split())
    for verb in VERBS:
        assert f" {verb.name} {' '.join(verb.help.split())} " in words, verb


def test_the_version_stands_alone_on_stdout() -> None:
    done = muster("--version")
    assert (done.status, done.stdout, done.stderr) == (0, f"muster {__version__}\n", "")


def test_a_verb_misspelt_is_offered_the_right_one() -> None:
    done = muster("submitt")
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr == "muster: error: there is no verb named 'submitt'\n\nhint: did you mean 'submit'?\n"


def test_a_verb_of_the_lab_is_offered_with_the_lab_before_it() -> None:
    assert muster("fault").stderr.endswith("\n\nhint: muster lab fault FAULT [H…]\n")


@given(st.text(min_size=1).filter(lambda word: word not in {"-h", "--help", "help", "--version", "-V", "version"}))
def test_no_first_word_whatever_makes_a_traceback(word: str) -> None:
    if word not in {verb.name for verb in VERBS}:
        assert app.main([word]) == 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownName("site", "x", ["y"]), 2),
        (MachineLacks("slurmd", "slurmd is not there", hint="apt-get install slurmd"), 2),
        (SchedulerSilent("no answer", hint="try again"), 3),
        (CommandFailed(["sbatch"], 1, "no such partition"), 3),
        (MusterError("a sentence", "what to do"), 2),
    ],
)
def test_an_error_becomes_a_sentence_a_hint_and_its_status(
    error: MusterError,
    status: int,
    verb_that: Callable[[Callable[[], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def act() -> int:
        raise error

    verb_that(act)
    assert app.main(["try"]) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"muster: error: {error.message}\n" + (f"\nhint: {error.hint}\n" if error.hint else "")


def test_a_bug_of_ours_says_so_and_where_without_a_traceback(
    verb_that: Callable[[Callable[[], int]], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUSTER_TRACEBACK", raising=False)
    verb_that(lambda: NOTHING["gone"])
    assert app.main(["try"]) == 70
    said = capsys.readouterr().err
    assert "a bug in Muster: KeyError" in said
    assert "Traceback" not in said


def test_the_traceback_of_a_bug_is_shown_on_request(
    verb_that: Callable[[Callable[[], int]], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_TRACEBACK", "1")
    verb_that(lambda: NOTHING["gone"])
    assert app.main(["try"]) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("tty", "said"), [(True, "muster: interrupted\n"), (False, "")])
def test_control_c_is_130(
    verb_that: Callable[[Callable[[], int]], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    tty: bool,
    said: str,
) -> None:
    def act() -> int:
        raise KeyboardInterrupt

    verb_that(act)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty)
    assert app.main(["try"]) == 130
    assert capsys.readouterr().err == said


def test_a_reader_that_has_left_is_nobodys_mistake() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken:
        done = subprocess.run([MUSTER, "--help"], stdout=broken, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_full_disk_is_told_in_words() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([MUSTER, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("muster: error: no space is left to write the output\n\nhint: ")
    assert len(done.stderr.splitlines()) == 3


# Encodings in which Python writes on an old login node, or where somebody said so.
@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        *(("ascii", (name, "--help")) for name in ("run", "bench", "lab", "build")),
        *((encoding, ("site", "show", "lumi")) for encoding in ("ascii", "latin-1", "iso8859-15", "utf-8")),
    ],
)
def test_every_page_is_printed_whatever_stdout_takes(encoding: str, words: tuple[str, ...]) -> None:
    variables = {**os.environ, "PYTHONIOENCODING": f"{encoding}:strict", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    # Without `site`: Python reads the path of a checkout from a .pth file, and there no letter beyond ASCII here.
    variables |= {"LC_ALL": "POSIX", "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-S", "-m", "muster", *words]
    done = subprocess.run(argv, capture_output=True, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode(encoding)


@pytest.mark.parametrize(
    ("form", "encoding"),
    [("script", "utf-8"), ("json", "utf-8"), ("why", "ascii"), ("words", "ascii"), ("toml", "ascii")],
)
def test_a_plan_is_printed_whatever_stdout_takes(form: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", stdout := TextIOWrapper(written, encoding="ascii", errors="strict"))
    assert app.main(["plan", "--site", "clariden", "-A", "a", "--as", form, "--", "x", "\udcc3\udcbc"]) == 0
    stdout.flush()
    assert "x" in written.getvalue().decode(encoding)


@pytest.mark.parametrize("words", [("site", "show", "lumi"), ("site", "list"), ("plan", "--site", "lumi", "--", "x")])
def test_a_reader_of_both_streams_that_has_left_is_status_141(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([MUSTER, *words], stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 141


def test_a_name_that_is_no_text_can_be_printed(tmp_path: Path) -> None:
    done = subprocess.run(
        [MUSTER, "check", "--log", os.fsencode(tmp_path) + b"/\xff"], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"No such file" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--", "true"),
        ("submit", "--", "true"),
        ("run", "--here", "--", "true"),
        ("check",),
        ("site", "detect"),
        ("build", "venv", "x"),
    ],
)
def test_a_working_directory_that_was_removed_is_said(words: tuple[str, ...], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    done = subprocess.run(["sh", "-c", script, "sh", gone, MUSTER, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "the working directory is not there any more" in done.stderr
    assert "hint: cd to" in done.stderr


def test_what_the_file_system_says_is_no_bug(verb_that: Callable[[Callable[[], int]], None], capsys: Any) -> None:
    def write() -> int:
        raise PermissionError(13, "Permission denied", "/home/ro/.local")

    verb_that(write)
    assert app.main(["try"]) == 2
    assert "/home/ro/.local: Permission denied" in capsys.readouterr().err


_MSGSPEC_ALONE = """
import sys
from muster.cli.app import _load_msgspec
_load_msgspec()
omitted = {"platform", "textwrap", "typing_extensions", "msgspec.inspect"}
print(sorted(omitted & {*sys.modules}))
import msgspec
print(msgspec.json.schema(int), "msgspec.inspect" in sys.modules, msgspec.inspect.type_info(int))
import platform, textwrap
print(platform.system(), textwrap.shorten("a b", 9), sys.modules["platform"] is platform)
"""


def test_msgspec_is_loaded_without_what_describes_types_until_somebody_asks_for_it() -> None:
    ended = run([sys.executable, "-c", _MSGSPEC_ALONE])
    assert ended.stdout.splitlines() == [
        "[]",
        "{'type': 'integer'} True IntType(gt=None, ge=None, lt=None, le=None, multiple_of=None)",
        f"{os.uname().sysname} a b True",
    ]
