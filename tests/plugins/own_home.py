"""A home of the tests' own: a person's files and variables decide no test, wherever the checkout lies.

Before the first test is collected, HOME names a new folder, and the variables of a job, of the ranks, of Muster, of the
desktop and of the terminal are unset (`scripts/own_home.py`). The folder goes when pytest ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

from own_home import find_place, leave_home  # noqa: E402  # scripts/ is no package

__all__ = ["HOUSE"]

_OF_THE_TERMINAL = (
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "PAGER",
    "LESS",
    "EDITOR",
    "VISUAL",
)


def _make_house() -> Path:
    place = find_place()
    place.mkdir(parents=True, exist_ok=True)
    house = Path(mkdtemp(prefix="muster-tests-", dir=place))
    house.chmod(0o755)
    return house


HOUSE = _make_house()
"""A folder of this session that each host of a lab sees and each user may enter."""

# Here and not in a hook: the modules of tests read the environment when they are imported.
_packages = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
leave_home(os.environ, HOUSE / "home")
for _name in _OF_THE_TERMINAL:
    os.environ.pop(_name, None)
_packages -= set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
sys.path[:] = [path for path in sys.path if path not in _packages]


def pytest_unconfigure() -> None:
    """Remove the folder."""
    rmtree(HOUSE, ignore_errors=True)
