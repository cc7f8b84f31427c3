"""A real Horovod for tests, from the wheel that a build on this machine has kept.

`horovod_python`    the python of an environment that has torch and Horovod; skips where no build has been made yet
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from muster.errors import MusterError
from muster.runner import checked, run
from muster_build.horovod import add_horovod, horovod_cache, kept_wheel, look_at_target


def environment_with_torch(folder: Path) -> Path:
    """A new environment that sees what the tests' own has, and can be installed into; its python."""
    checked(run([sys.executable, "-m", "venv", "--without-pip", str(folder)]))
    (folder / sysconfig.get_path("purelib", vars={"base": ""}).lstrip("/") / "tests.pth").write_text(
        sysconfig.get_path("purelib")
    )
    return folder / "bin/python"


@pytest.fixture(scope="session")
def horovod_python(scratch: Path) -> Path:
    """Made once a session, where every host of a lab sees it."""
    python = environment_with_torch(scratch / "horovod")
    try:
        wheel = kept_wheel(horovod_cache(os.environ), look_at_target(python, os.environ))
    except MusterError as error:
        pytest.skip(f"by design: make test-long builds Horovod, and here: {error.message}")
    if wheel is None:
        pytest.skip("by design: no wheel of Horovod is kept on this machine: pytest tests/build -m long makes it")
    add_horovod(python, os.environ, print)
    return python
