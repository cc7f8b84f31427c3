"""Guards the range of torch versions: one below it is told of in a sentence, and the wire-up needs no library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.rank.errors import TorchTooOld
from muster.rank.torch_range import refuse_old_torch
from muster.runner import ProgramResult, run
from plugins.labs import MUSTER, ROOT

SENTENCE = "muster's library needs torch 2.3 or newer, but this is 2.2.2+cu121"


@pytest.fixture
def old_torch(tmp_path: Path) -> Path:
    """A folder with what torch 2.2.2 says of itself; whoever loads it leaves a word on stdout."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "version.py").write_text("__all__ = ['__version__']\n__version__ = '2.2.2+cu121'\ncuda = '12.1'\n")
    (package / "__init__.py").write_text("from .version import __version__\nprint('torch was loaded')\n")
    return tmp_path


def told(folder: Path, program: str) -> ProgramResult:
    """What a Python says that finds this torch, and our library behind it."""
    path = f"{folder}:{ROOT / 'src'}"
    return run([sys.executable, "-S", "-c", program], env={"PYTHONPATH": path})


@pytest.mark.parametrize(
    ("program", "loads"),
    [
        ("import torch, muster", True),
        ("import torch; from muster import World", True),
        ("from muster import world", False),
        ("import muster; muster.world()", False),
    ],
)
def test_a_torch_that_is_too_old_is_told_of_at_the_import(old_torch: Path, program: str, *, loads: bool) -> None:
    done = told(old_torch, program)
    last = done.stderr.splitlines()
    assert done.status == 1
    assert f"TorchTooOld: {SENTENCE}" in done.stderr
    assert last[-1].startswith("hint: without it the wire-up still works")
    assert ("torch was loaded" in done.stdout) == loads


def test_a_script_can_take_the_way_without_the_library(old_torch: Path) -> None:
    program = "try:\n    import torch, muster\nexcept ImportError as error:\n    print(error.name, error, sep='|')"
    assert f"None|{SENTENCE}" in told(old_torch, program).stdout


def test_nothing_is_said_of_a_torch_that_nobody_can_tell(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()  # a folder of this name beside the script is no torch
    assert told(tmp_path, "import torch, muster; muster.world; muster.WireupError").ok
    assert told(tmp_path / "none", "import muster; muster.world").ok


def test_what_is_no_version_is_not_refused() -> None:
    for version in ("2.3.0a0+git1234", "2.3", "2.13.0+cpu", "3.0", "unknown"):
        refuse_old_torch(version)
    for version in ("1.13.1", "2.2.2", "0.4"):
        with pytest.raises(TorchTooOld, match=r"torch 2\.3 or newer"):
            refuse_old_torch(version)


def test_the_wire_up_works_beside_an_old_torch(old_torch: Path) -> None:
    """The command and its variables need no torch; only what takes the library from the same Python is refused."""
    words = [MUSTER, "run", "--here", "--quiet", "--ntasks-per-node", "2", "--no-label", "--"]
    program = "import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'])"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(old_torch), "HOME": str(old_torch)}
    done = run([*words, sys.executable, "-c", program], env=environment, cwd=old_torch)
    assert (done.status, sorted(done.stdout.splitlines())) == (0, ["0 2", "1 2"]), done.stderr
    refused = run([*words, sys.executable, "-c", "from muster import world"], env=environment, cwd=old_torch)
    assert refused.status == 1
    assert SENTENCE in refused.stderr
