"""Bytecode: the tests start thousands of Pythons, and each would compile Muster anew where Python may write none.

An installed package has its bytecode from pip. A checkout has none where PYTHONDONTWRITEBYTECODE is set, as in many
images: then the compiler takes two fifths of a command's processor time.
"""

import compileall
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"


def pytest_configure() -> None:
    """Compile what changed, and let pytest keep the tests that it rewrote: this process only."""
    sys.dont_write_bytecode = False
    compileall.compile_dir(SOURCES, quiet=1)
