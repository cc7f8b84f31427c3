"""`make demo`: what it draws while it trains, at every width, and that an install shows that it goes on."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from muster.runner import run

ROOT = Path(__file__).resolve().parents[2]
CLOCK = str(ROOT / "scripts/with-clock")
_SPEC = importlib.util.spec_from_file_location("demo", ROOT / "scripts/demo.py")
assert _SPEC is not None
assert _SPEC.loader is not None
demo = importlib.util.module_from_spec(_SPEC)
sys.modules["demo"] = demo  # a dataclass looks its module up
_SPEC.loader.exec_module(demo)


def drawn(width: int) -> list[str]:
    names = ("one process, the whole batch", "this machine, 4 ranks", "4 hosts, srun", "4 hosts, mpirun")
    ways = [demo.Way(name, "■", [], Path("x.pt")) for name in names]
    ways[0].began, ways[0].seconds, ways[0].losses = 1.0, 3.1, ["2.349774", "0.079136"]
    ways[1].began, ways[1].losses = demo.clock() - 4.0, ["2.349774"]
    ways[2].began = demo.clock() - 1.0
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(demo.picture(ways, width))
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_table_says_how_far_each_way_is(width: int) -> None:
    text = "\n".join(drawn(width))

    assert "done" in text
    assert "trains, 4 s" in text
    assert "starts, 1 s" in text
    assert text.splitlines()[-1] == "4 hosts, mpirun"
    assert max(map(len, text.splitlines())) <= width


def test_the_last_table_shows_the_ranks_and_how_the_loss_fell() -> None:
    losses = ["2.349774", "1.2", "0.5", "0.079136"]
    way = demo.Way("4 hosts, srun", "■ ■ ■ ■", [], Path("x.pt"), seconds=3.14, losses=losses, distance="4e-15")

    assert way.cells() == ("4 hosts, srun", "■ ■ ■ ■", "2.35 █▅▂▁ 0.08", "3.1", "4e-15")
    assert len(way.cells()) == len(demo.COLUMNS)


def test_a_pipe_and_a_simple_terminal_get_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not demo.draws()  # pytest's stdout is no terminal
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    assert not demo.draws()


def test_it_ends_with_three_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from muster.cli.verbs import VERBS

    demo.next_steps()

    shown = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  muster ")]
    assert len(shown) == 3
    assert {words[1] for words in shown} <= {verb.name for verb in VERBS}


def test_a_silent_command_is_announced_and_keeps_its_status() -> None:
    done = run([CLOCK, "installing", "sh", "-c", "exit 7"])

    assert (done.status, done.stdout) == (7, "installing\n")


def test_a_terminal_sees_the_seconds() -> None:
    seen = run(["script", "-qec", f"'{CLOCK}' installing sleep 1.8", "/dev/null"], env={**os.environ, "TERM": "xterm"})

    seconds = [int(number) for number in re.findall(r"\r  … (\d+) s", seen.stdout)]
    assert seconds
    assert seconds == sorted(set(seconds))
