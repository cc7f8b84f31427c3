"""Guards how answers are printed: plain and aligned where a program reads, drawn where a person does."""

from __future__ import annotations

import io
import json
import os
import pty
from contextlib import suppress

import pytest

from muster.cli.logs import as_shown
from muster.cli.output import _widths, at_words, hanging, harmless, print_json, print_table, say
from muster.cli.verbs import VERBS

COLUMNS = ("host", "rank")
ROWS = (("node1", 0), ("node2 [bold]", 11))


def test_a_table_for_a_program_is_aligned_and_has_no_title() -> None:
    stream = io.StringIO()
    print_table("ranks", COLUMNS, ROWS, file=stream)
    assert stream.getvalue() == "host          rank\nnode1         0\nnode2 [bold]  11\n"


def test_one_long_name_does_not_push_the_other_rows_apart() -> None:
    stream = io.StringIO()
    print_table("jobs", ("name", "state"), (("x" * 250, "RUNNING"), ("train", "PENDING")), file=stream)
    assert stream.getvalue() == f"name   state\n{'x' * 250}  RUNNING\ntrain  PENDING\n"
    stream = io.StringIO()
    print_table("jobs", ("name", "state"), (("x" * 60, "RUNNING"), ("x" * 61, "RUNNING")), file=stream)
    assert stream.getvalue() == f"name{' ' * 58}state\n{'x' * 60}  RUNNING\n{'x' * 61}  RUNNING\n"


def test_a_table_without_rows_is_its_heading() -> None:
    stream = io.StringIO()
    print_table("ranks", COLUMNS, (), file=stream)
    assert stream.getvalue() == "host  rank\n"


def test_the_widest_columns_are_folded_and_only_a_monster_of_a_word_is_broken() -> None:
    columns = ("job", "name", "what it does")
    assert _widths(columns, [("1", "a b", "this and that " * 5)], 40) == [3, 4, 33]
    assert _widths(columns, [("1", "x" * 60, "this and that")], 40) == [3, 24, 13]
    assert _widths(columns, [("1", "x" * 60, "this and that")], 25) is None


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_a_table_for_a_person_is_drawn_and_shows_text_as_it_is(no_colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_colour)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        print_table("ranks", COLUMNS, ROWS, file=terminal)
        terminal.flush()
        seen = os.read(ours, 65536).decode()
    os.close(ours)
    assert "─" in seen
    assert "node2 [bold]" in seen


def test_a_screen_of_no_columns_is_one_of_eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    columns, row = ("job", "a", "b", "c"), ("7", "x" * 30, "y" * 30, "z" * 30)
    print_table("jobs", columns, [row], file=(screen := Screen()))
    assert "x" * 23 in screen.getvalue()


def test_json_keeps_order_and_letters(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"b": "é", "a": [1]})
    said = capsys.readouterr().out
    assert list(json.loads(said)) == ["b", "a"]
    assert "é" in said


class Screen(io.StringIO):
    """A terminal of so many columns."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


SENTENCE = "muster: error: -N 9: partition 'main' has 2 nodes, and more of them will not come: ask for fewer of them"


@pytest.mark.parametrize("width", [20, 23, 38, 40, 41, 80, 160])
@pytest.mark.parametrize("head", ["", "  ", " " * 30])
def test_a_terminal_breaks_sentences_between_words_and_copies_one_line(
    width: int, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = f"{head}{SENTENCE}\n\nhint: -N 2"
    shown = at_words(text, Screen())
    assert [line.split() for line in shown.split("\n")] == [line.split() for line in text.split("\n")]
    line = shown.split("\n")[0]
    rows = [line[start : start + width] for start in range(0, len(line), width)]
    assert [word for row in rows for word in row.split()] == SENTENCE.split()


def test_what_no_terminal_reads_keeps_its_lines_and_so_does_a_word_that_is_wider_than_the_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert at_words(SENTENCE, io.StringIO()) == SENTENCE
    assert at_words("/a/path/that/is/longer/than/the/row", Screen()) == "/a/path/that/is/longer/than/the/row"
    assert (
        at_words("in /a/path/that/is/longer/than/the/row or so", Screen()).split()[1]
        == "/a/path/that/is/longer/than/the/row"
    )


def test_news_go_to_stderr_and_can_be_silenced(capsys: pytest.CaptureFixture[str]) -> None:
    say("one")
    say("two", quiet=True)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "muster: one\n")


def test_a_terminal_that_is_too_narrow_for_words_gets_a_block_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "28")
    columns = ("job", "", "name", "state", "what it does now")
    rows = [("17", "*", "training", "COMPLETED", "ended"), ("18", "", "b", "PENDING", "")]
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        print_table("jobs", columns, rows, file=terminal)
        terminal.flush()
        seen = os.read(ours, 65536).decode()
    os.close(ours)
    assert seen.splitlines() == [
        "17 *",
        "  name              training",
        "  state",
        "    COMPLETED",
        "  what it does now  ended",
        "18",
        "  name              b",
        "  state             PENDING",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_the_first_page_is_no_wider_than_the_terminal(width: int) -> None:
    from muster.cli.app import help_text

    columns = help_text(width).partition("verbs:\n")[2].partition("\n\n`muster")[0]
    assert max(map(len, columns.splitlines())) <= width
    assert all(f"  {verb.name}" in columns for verb in VERBS)


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_long_value_is_folded_below_its_beginning_and_loses_no_word(width: int) -> None:
    text = "partly on the documents of the site, partly on what others published"
    for head in ("key  ", "a.much.longer.key.of.a.profile  "):
        lines = hanging(head, text, width)
        assert " ".join(" ".join(lines).split()) == f"{head.rstrip()} {text}"
        assert all(len(line) <= width or line == head.rstrip() for line in lines)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 1.2 \x1b[32mgreen\x1b[0m \x1b[2K\r50%", "loss 1.2 \x1b[32mgreen\x1b[0m \x1b[2K\r50%"),
        ("\x1b]0;root@login\x07", "\\x1b]0;root@login\\x07"),
        ("\x1b]52;c;Y3VybA==\x1b\\", "\\x1b]52;c;Y3VybA==\\x1b\\"),
        ("\x1b[6n\x1bP+q\x9b6n", "\\x1b[6n\\x1bP+q\\x9b6n"),
        ("ü\t€\n", "ü\t€\n"),
    ],
    ids=["colours", "title", "clipboard", "questions", "text"],
)
def test_a_terminal_gets_no_commands_of_a_job(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_a_name_of_a_job_commands_no_terminal() -> None:
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal:
        print_table("jobs", ("job", "name"), [(1, "a\x1b]0;b\x07")], file=terminal)
        print(at_words("muster: \x1b]0;b\x07", terminal), file=terminal)
    said = b""
    with suppress(OSError):  # Linux's end of a terminal that nobody writes to any more
        while part := os.read(reader, 65536):
            said += part
    os.close(reader)
    assert b"\x1b]0" not in said
    assert said.count(b"\\x1b]0;b\\x07") == 2


def test_a_line_of_a_rank_keeps_bytes_that_are_no_text() -> None:
    assert as_shown(b"\xff\x1b]0;x\x07 ok") == b"\xff\\x1b]0;x\\x07 ok"
