"""Guards two promises: importing does nothing, and planning and rendering touch nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .paths import ROOT, SOURCE, module_names

WATCHED = Path(__file__).with_name("watched.py")


def tell(*words: str, path: Path = SOURCE) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-B", str(WATCHED), *words],
        env={"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told: dict[str, list[str]] = json.loads(done.stdout)
    return told


def test_importing_any_module_of_ours_touches_nothing() -> None:
    told = tell("imports", *module_names())
    assert {name: found for name, found in told.items() if found} == {}


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        ("import socket; socket.socket().close()", "socket.__new__"),
        ("import subprocess; subprocess.run(['true'], check=False)", "subprocess.Popen"),
        ("import os; os.environ['MUSTER_SET'] = '1'", "os.environ"),
        ("import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal handlers"),
        ("import logging; logging.basicConfig()", "log handlers"),
        ("open(__file__ + '.new', 'w').close()", "to write"),
        ("open('/etc/hostname').close()", "open /etc/hostname"),
        ("import os; os.mkdir(__file__ + '.directory')", "os.mkdir"),
        ("import os; os.fork() or os._exit(0)", "os.fork"),
    ],
)
def test_an_import_that_does_something_is_seen(tmp_path: Path, statement: str, effect: str) -> None:
    (tmp_path / "guilty.py").write_text(statement)
    told = tell("imports", "guilty", path=tmp_path)
    assert any(effect in line for line in told["guilty"]), told


def test_planning_and_rendering_touch_nothing() -> None:
    told = tell("plans")
    assert len(told) > 1
    assert {name: found for name, found in told.items() if found} == {}
