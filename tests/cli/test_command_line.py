"""One table of command lines: every verb has a page that fits, every option works, help and reader never differ."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster.cli
from muster.cli.app import main
from muster.cli.command_line import CommandLine, read_command
from muster.cli.help_page import help_page, options_by_title
from muster.cli.verbs import VERBS, command_of
from muster.errors import RequestError
from muster.job.request import options_of


def leaves(command: CommandLine) -> Iterator[CommandLine]:
    """The command lines that start something."""
    for each in command.verbs:
        yield from leaves(each)
    if not command.verbs:
        yield command


ALL = [leaf for verb in VERBS for leaf in leaves(command_of(verb))]
PAGES = [*ALL, *(command_of(verb) for verb in VERBS if command_of(verb).verbs)]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_and_its_command_line_have_one_name(verb: object) -> None:
    command = command_of(verb)  # type: ignore[arg-type]
    assert command.name == verb.name  # type: ignore[attr-defined]
    assert all(each.name.rpartition(" ")[0] == command.name for each in command.verbs)


@pytest.mark.parametrize("command", PAGES, ids=lambda command: command.name)
@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("everything", [False, True], ids=["short", "all"])
def test_every_page_fits_its_terminal(command: CommandLine, width: int, everything: bool) -> None:
    page = help_page(command, width=width, with_all=everything)
    shaped = {f"  {each}" for each in command.examples} | set(command.summary.splitlines())
    assert [line for line in page.splitlines() if len(line) > width and line not in shaped] == []
    assert "%%" not in page


@pytest.mark.parametrize("command", PAGES, ids=lambda command: command.name)
def test_examples_fit_eighty_columns(command: CommandLine) -> None:
    assert [each for each in command.examples if len(each) > 78] == []


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.name)
def test_the_full_page_names_every_option_once(command: CommandLine) -> None:
    page = help_page(command, width=120, with_all=True)
    for option in {**command.launch_options, **command.own}.values():
        lines = [line for line in page.splitlines() if f"{line}  ".startswith(f"  {option.head}  ")]
        assert len(lines) == (option.group != "hidden"), option.head
    assert command.launch_options or help_page(command, width=120) == page, "of a few options all are shown at once"
    assert "".join(page.split()).endswith("".join(command.more.split()))
    assert not page.endswith("\n\n")


@pytest.mark.parametrize("name", ["run", "submit", "plan"])
def test_the_first_page_of_a_launch_shows_what_most_people_need(name: str) -> None:
    command = next(each for each in ALL if each.name == name)
    page = help_page(command)
    heads = [line for line in page.splitlines() if line.startswith("  -")]
    assert len(heads) <= 15
    assert len(page.splitlines()) <= 40
    for flag in ("--nodes", "--gpus-per-node", "--time", "--account", "--quiet", "--help"):
        assert flag in page
    assert "example:\n  muster" in page
    assert f"`muster {name} --help all` shows all" in page
    assert "output" in options_by_title(command)


def test_the_page_of_run_names_its_own_options() -> None:
    page = help_page(command_of(VERBS[0]))
    assert all(flag in page for flag in ("--rehearse", "--quiet"))
    assert "--ranks" in help_page(command_of(VERBS[0]), with_all=True)


@pytest.mark.parametrize(
    ("words", "there", "absent"),
    [
        ("shell --help all", "--partition", "--snapshot"),
        ("shell --help all", "--partition", "--stage"),
        ("shell --help all", "--partition", "--check "),
        ("check --help", "--picture", "--stage"),
        ("bench --help", "--html", "--output"),
        ("site list --help", "usage: muster site list", "--why"),
        ("site show --help", "--why", "--srun"),
        ("help run", "usage: muster run", "usage: muster VERB"),
        ("--help run", "usage: muster run", "usage: muster VERB"),
        ("lab up --help", "--accounting", "--host"),
        ("run --nonsense --help", "usage: muster run", "error"),
    ],
)
def test_a_page_shows_its_own(words: str, there: str, absent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 0
    page = capsys.readouterr().out
    assert there in page
    assert absent not in page


def test_help_behind_the_command_is_the_commands() -> None:
    command = command_of(VERBS[0])
    assert read_command(command, ["-N", "2", "python", "train.py", "--help"]).operands == (
        "python",
        "train.py",
        "--help",
    )
    assert read_command(command, ["--", "x", "-h"]).operands == ("x", "-h")


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.name)
def test_every_own_option_without_its_value_says_what_it_takes(command: CommandLine) -> None:
    for option in command.own.values():
        if not option.is_switch:
            for flag in option.flags:
                with pytest.raises(RequestError, match="needs a value") as caught:
                    read_command(command, [flag])
                assert caught.value.hint
                with pytest.raises(RequestError, match="needs a value"):
                    read_command(command, [f"{flag}="])


def test_an_option_that_a_verb_does_not_take_is_refused() -> None:
    for name, words, hint in (
        ("run", ["-o", "x"], "> FILE behind the command"),
        ("shell", ["--snapshot"], "muster submit takes it"),
        ("shell", ["--sweep=x.csv"], "muster submit takes it"),
        ("submit", ["--here"], "muster run takes it"),
        ("check", ["--stage=x"], "muster submit takes it"),
    ):
        command = next(each for each in ALL if each.name == name)
        with pytest.raises(RequestError, match=f"muster {name} does not take {words[0].partition('=')[0]}") as refused:
            read_command(command, words)
        assert hint in (refused.value.hint or "")


def test_no_own_option_hides_one_of_the_launch() -> None:
    options = options_of()
    for command in ALL:
        launch = {flag for field in command.fields for flag in options[field].flags}
        own = [flag for option in command.own.values() for flag in option.flags]
        assert len(own) == len(set(own))
        assert launch & set(own) == set(), command.name


def test_there_is_one_reader_of_command_lines() -> None:
    """No verb parses by itself: argparse, and scans of sys.argv, stand nowhere in the room."""
    for path in Path(muster.cli.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not imported & {"argparse", "getopt", "optparse"}, path.name


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("rehearse", "muster run --rehearse -- COMMAND"),
        ("squeue", "muster jobs"),
        ("torchrun", "muster run --launcher torchrun -- python train.py"),
        ("jbos", "did you mean 'jobs'?"),
    ],
)
def test_what_is_no_verb_is_answered(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert f"hint: {hint}" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_the_version_has_three_spellings(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("muster ")


def test_a_sites_name_in_capitals_is_offered_in_its_own_letters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--site", "LUMI", "--", "true"]) == 2
    assert "hint: did you mean 'lumi'?" in capsys.readouterr().err
