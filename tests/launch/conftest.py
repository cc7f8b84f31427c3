"""What the tests of launches share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mpich(scratch: Path) -> Path:
    """A directory whose mpirun is MPICH's: to stand first in PATH."""
    folder = scratch / "mpich"
    folder.mkdir()
    # Hydra looks for its helper beside the name that it was started by.
    for name, program in (("mpirun", "mpirun.mpich"), ("hydra_pmi_proxy", "hydra_pmi_proxy")):
        found = shutil.which(program)
        if found is None:
            pytest.skip(f"{program} is missing: apt-get install mpich")
        (folder / name).symlink_to(found)
    return folder
