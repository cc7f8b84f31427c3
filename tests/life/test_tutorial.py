"""The tutorial: whoever types it sees what it shows."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from muster.runner import run

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/make_tutorial.py"
_SPEC = importlib.util.spec_from_file_location("make_tutorial", SCRIPT)
assert _SPEC is not None
assert _SPEC.loader is not None
make_tutorial = importlib.util.module_from_spec(_SPEC)
sys.modules["make_tutorial"] = make_tutorial  # a NamedTuple looks its module up
_SPEC.loader.exec_module(make_tutorial)


@pytest.mark.lab
@pytest.mark.torch
def test_every_output_of_the_tutorial_is_what_happens() -> None:
    done = run([sys.executable, str(SCRIPT), "--check"], timeout_s=580)

    assert done.ok, f"{done.stderr}\nread the difference, then run scripts/make_tutorial.py"


@pytest.mark.lab
def test_the_outputs_of_the_page_on_many_small_jobs_are_what_happens() -> None:
    page = ROOT / "docs/guides/many-small-jobs.md"
    done = run([sys.executable, str(SCRIPT), "--check", str(page)], timeout_s=580)

    assert done.ok, f"{done.stderr}\nread the difference, then run scripts/make_tutorial.py {page}"


@pytest.mark.lab
@pytest.mark.long
def test_the_outputs_of_the_page_on_long_jobs_are_what_happens() -> None:
    done = run([sys.executable, str(SCRIPT), "--check", str(ROOT / "docs/guides/weeks.md")], timeout_s=580)

    assert done.ok, f"{done.stderr}\nread the difference, then run scripts/make_tutorial.py docs/guides/weeks.md"


def test_the_page_shows_every_kind_of_step() -> None:
    commands = [
        command
        for kind, block in make_tutorial.BLOCK.findall(make_tutorial.PAGE.read_text())
        if kind == "console"
        for command in make_tutorial.commands_in(block)
    ]
    words = " ; ".join(command.words for command in commands)

    assert {command.prompt for command in commands} == {"$", "login$"}
    for step in ("lab up", "run -N 4", "why", "submit", "logs -f", "--rehearse --site", "--image", "lab down"):
        assert f"muster {step}" in words or step in words


def test_the_script_of_the_page_lies_beside_it() -> None:
    page = make_tutorial.PAGE
    scripts = [block for kind, block in make_tutorial.BLOCK.findall(page.read_text()) if kind == "python"]

    assert scripts == [page.with_name("train.py").read_text()]


PRINTED = ("muster: job 2 runs on node[1-4]", "0: loss 0.3", "1: done", "ended 2026-11-22 05:17:04, after 00:00:15")


@pytest.mark.parametrize(
    ("shown", "same"),
    [
        (PRINTED, True),
        ((*PRINTED[:3], "ended 2027-01-02 13:00:00, after 00:01:00"), True),
        (("…", *PRINTED[2:]), True),
        ((PRINTED[0], "…"), True),
        (("…",), True),
        ((PRINTED[0].replace("2", "3"), "…"), False),
        ((*PRINTED[:1], "0: loss 0.4", *PRINTED[2:]), False),
        (PRINTED[:3], False),
        ((*PRINTED, "more"), False),
        ((), False),
    ],
)
def test_a_changed_output_is_seen(shown: tuple[str, ...], same: bool) -> None:
    assert make_tutorial.agree(shown, PRINTED) is same


def test_lines_of_ranks_are_compared_in_order_of_ranks() -> None:
    lines = ["first", "2: c", "0: a", "2: d", "1: b", "last"]

    assert list(make_tutorial.in_order_of_ranks(iter(lines))) == ["first", "0: a", "1: b", "2: c", "2: d", "last"]
