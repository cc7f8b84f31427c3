"""How Muster was installed here, as a value, and the command that adds a package beside it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import msgspec

from muster.older import StrEnum
from muster.ownership import text_of

PROCESSORS_WITH_WHEELS = ("x86_64", "aarch64")
"""The markers of pyproject.toml name them: py-spy and tree-sitter have wheels there."""


class Installer(StrEnum):
    """What has installed Muster."""

    PIP = "pip"
    PIPX = "pipx"
    UV = "uv"
    ONE_FILE = "muster.pyz"


class Installation(msgspec.Struct, frozen=True):
    """Where Muster lies, and what put it there."""

    installer: Installer
    python: str
    folder: Path
    """What holds the package `muster`."""

    def command_to_add(self, *packages: str) -> str:
        """Return the command that adds these packages, for a shell."""
        words = {
            Installer.PIP: [self.python, "-m", "pip", "install"],
            Installer.PIPX: ["pipx", "inject", "muster-hpc"],
            Installer.UV: ["uv", "pip", "install", "--python", self.python],
            Installer.ONE_FILE: [self.python, "-m", "pip", "install", "--target", str(self.folder)],
        }[self.installer]
        return shlex.join([*words, *packages])


def installation(
    prefix: Path = Path(sys.prefix), python: str = sys.executable, folder: Path = Path(__file__).parents[2]
) -> Installation:
    """Return how the Muster that runs was installed: each installer but pip leaves a file of its own."""
    if (folder / "muster-one-file").is_file():
        installer = Installer.ONE_FILE
    elif (prefix / "pipx_metadata.json").is_file():
        installer = Installer.PIPX
    elif (prefix / "uv-receipt.toml").is_file() or _was_made_by_uv(prefix):
        installer = Installer.UV
    else:
        installer = Installer.PIP
    return Installation(installer, python, folder)


def _was_made_by_uv(prefix: Path) -> bool:
    """Tell whether uv made this virtual environment: it has no pip then."""
    lines = text_of(prefix / "pyvenv.cfg").splitlines()
    return any(line.partition("=")[0].strip() == "uv" for line in lines)


def has_wheels() -> bool:
    """Tell whether py-spy and tree-sitter have wheels for this processor."""
    return os.uname().machine in PROCESSORS_WITH_WHEELS
