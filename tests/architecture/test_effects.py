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


GUILTY = {
    "import socket; socket.socket().close()": "socket.__new__",
    "import subprocess; subprocess.run(['true'], check=False)": "subprocess.Popen",
    "import os; os.environ['MUSTER_SET'] = '1'": "os.environ",
    "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)": "signal handlers",
    "import logging; logging.basicConfig()": "log handlers",
    "open(__file__ + '.new', 'w').close()": "to write",
    "open('/etc/hostname').close()": "open /etc/hostname",
    "import os; os.mkdir(__file__ + '.directory')": "os.mkdir",
    "import os; os.fork() or os._exit(0)": "os.fork",
}


@pytest.fixture(scope="module")
def guilty_imports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each statement did as a module, all in one interpreter: each has its own list."""
    folder = tmp_path_factory.mktemp("guilty")
    for number, statement in enumerate(GUILTY):
        (folder / f"guilty{number}.py").write_text(statement)
    effects = tell("imports", *(f"guilty{number}" for number in range(len(GUILTY))), path=folder)
    return dict(zip(GUILTY, effects.values(), strict=True))


@pytest.mark.parametrize(("statement", "effect"), GUILTY.items())
def test_an_import_that_does_something_is_seen(
    guilty_imports: dict[str, list[str]], statement: str, effect: str
) -> None:
    assert any(effect in line for line in guilty_imports[statement]), guilty_imports


def test_planning_and_rendering_touch_nothing() -> None:
    told = tell("plans")
    assert len(told) > 1
    assert {name: found for name, found in told.items() if found} == {}
