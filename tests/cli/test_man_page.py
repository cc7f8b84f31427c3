"""The manual pages: `man` reads them without a warning, and they have every option that the help has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.cli.command_line import CommandLine
from muster.cli.man_page import man_page, write_man_pages
from muster.cli.verbs import VERBS, command_of
from muster.job.option import option

needs_man = pytest.mark.skipif(shutil.which("lexgrog") is None or shutil.which("groff") is None, reason="man-db")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    write_man_pages(folder)
    write_man_pages(folder)  # once more: over those that are there
    return folder


def commands() -> Iterator[CommandLine]:
    for verb in VERBS:
        command = command_of(verb)
        yield from (command, *command.verbs)


def said(*words: object, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@needs_man
@pytest.mark.programs
def test_troff_prints_every_option_of_every_verb_without_a_warning(folder: Path) -> None:
    for command in commands():
        page = folder / "man1" / f"muster-{command.name.replace(' ', '-')}.1"
        shown = said("groff", "-ww", "-K", "utf8", "-man", "-Tutf8", "-P-c", "-P-b", "-P-u", page)
        assert f"muster {command.name}" in shown
        own = [] if command.verbs else [*command.launch_options.values(), *command.own.values()]
        flags = {flag for each in own if each.group != "hidden" for flag in each.flags}
        assert {flag for flag in flags if flag not in shown} == set()


@needs_man
def test_whatis_has_one_line_for_each_page(folder: Path) -> None:
    pages = sorted((folder / "man1").iterdir())
    lines = said("lexgrog", *pages).splitlines()
    assert len(lines) == len(pages) > 40
    for page, line in zip(pages, lines):
        assert re.fullmatch(rf'{re.escape(str(page))}: "{re.escape(page.stem)} - \S.*"', line), line


@needs_man
def test_signs_of_troff_mean_nothing_in_our_text(tmp_path: Path) -> None:
    command = CommandLine(
        name="trial",
        summary=".dot 'quote' `tick` ~/x ^a \\n --long-flag\n\n  .kept  'line'",
        options=(option("--a-b C:\\D", ".first 'word'"),),
        examples=("muster trial 'a b' \\$HOME ~/.x",),
    )
    (tmp_path / "x.1").write_text(man_page(command, "a trial"))
    shown = said("groff", "-ww", "-K", "utf8", "-man", "-Tutf8", "-P-c", "-P-b", "-P-u", tmp_path / "x.1")
    for text in (".dot 'quote' `tick` ~/x ^a \\n --long-flag", "  .kept  'line'", "--a-b C:\\D", ".first 'word'"):
        assert text in shown
    assert "muster trial 'a b' \\$HOME ~/.x" in shown


def test_docs_writes_them_and_says_how_man_finds_them(tmp_path: Path) -> None:
    shown = said(sys.executable, "-m", "muster", "docs", "--man", tmp_path / "share/man")
    count = len(list((tmp_path / "share/man/man1").iterdir()))
    assert shown.startswith(f"{count} manual pages in {tmp_path}/share/man/man1\n")
    assert f"export MANPATH={tmp_path}/share/man:" in shown
