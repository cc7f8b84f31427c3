"""muster docs: every page of the documents is found by its name, drawn on a terminal, plain in a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
import zipfile
from pathlib import Path

import pytest

from muster.cli.app import main
from muster.cli.docs import KINDS, documents_folder, find_pages
from muster.runner import run, spawn

DOCS = documents_folder()
PAGES = find_pages(DOCS)
LINK = re.compile(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)")


def on_terminal(words: list[str], **env: str) -> str:
    """What a command writes on a terminal of 24 lines."""
    ours, theirs = pty.openpty()
    files = {0: theirs, 1: theirs, 2: theirs}
    process = spawn([sys.executable, "-m", "muster", *words], {**os.environ, "LINES": "24", **env}, files=files)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            drawn += os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    return drawn.decode()


def test_every_page_has_a_name_of_its_own() -> None:
    names = [page.name for page in PAGES]

    assert len(set(names)) == len(names)
    assert {page.path for page in PAGES} == set(DOCS.rglob("*.md")) - {DOCS / "index.md"}


def test_every_page_is_reached_from_the_first() -> None:
    reached, new = set(), {DOCS / "index.md"}
    while new:
        reached |= new
        links = {(page.parent / link).resolve() for page in new for link in LINK.findall(page.read_text())}
        new = {link for link in links if link.is_relative_to(DOCS)} - reached

    assert set(DOCS.rglob("*.md")) - reached == set()


@pytest.mark.parametrize("typed", ["jobs", "guides/jobs", "docs/guides/jobs.md", "JOBS", "guides/jobs.md"])
def test_a_page_is_found_however_it_is_named(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", typed]) == 0

    assert capsys.readouterr().out == (DOCS / "guides/jobs.md").read_text()


def test_the_site_comes_before_what_its_wiki_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "lumi"]) == 0

    assert capsys.readouterr().out.startswith("# LUMI")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("jbos", "did you mean 'jobs'?", id="letters changed places"),
        pytest.param("first", "did you mean 'first-job'?", id="the beginning"),
        pytest.param("nothing-like-it", "muster docs lists them", id="unlike any"),
    ],
)
def test_a_page_that_is_not_there_is_answered_with_what_to_type(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", name]) == 2

    assert f"hint: {hint}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--json",), ("--man", "share/man")])
def test_what_is_of_all_pages_takes_no_page(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", *words, "jobs"]) == 2
    assert "all pages, and not jobs alone" in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["40", "160"])
def test_all_pages_are_listed_in_the_width_of_the_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert main(["docs"]) == 0

    shown = capsys.readouterr().out
    assert [name for name in (page.name for page in PAGES) if not re.search(rf"^  {name}\b", shown, re.MULTILINE)] == []
    assert all(f"{kind} (" in shown for kind in KINDS if (DOCS / kind).is_dir())
    head, *_ = shown.partition("muster docs PAGE")
    assert max(len(line) for line in head.splitlines() if "(" not in line) <= int(columns)


def test_the_list_has_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--json"]) == 0

    assert {"page": "exit-status", "kind": "reference", "title": "Exit statuses"} in json.loads(capsys.readouterr().out)


def test_a_terminal_gets_the_page_drawn_and_as_wide_as_it_is() -> None:
    drawn = on_terminal(["docs", "exit-status"], COLUMNS="50", LINES="500", TERM="xterm", PAGER="cat")

    plain = re.sub(r"\x1b\[[0-9;]*m", "", drawn)
    assert plain != drawn
    assert "Exit statuses" in plain
    assert "| status |" not in plain
    assert max(len(line.rstrip()) for line in plain.splitlines()) <= 50


def test_a_long_page_goes_through_the_pager(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nsed 's/^/paged: /'\n")
    pager.chmod(0o755)

    assert "paged: " in on_terminal(["docs", "options"], COLUMNS="80", TERM="xterm", PAGER=str(pager))
    assert "paged: " not in on_terminal(["docs", "options"], COLUMNS="80", TERM="dumb", PAGER=str(pager))


def test_a_wheel_brings_the_pages(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    from hatchling.builders.wheel import WheelBuilder

    made = next(WheelBuilder(str(DOCS.parent)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(made) as wheel:
        wheel.extractall(tmp_path / "site")
    done = run(
        [sys.executable, "-m", "muster", "docs", "exit-status"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )

    assert done.stdout == (DOCS / "reference/exit-status.md").read_text()
