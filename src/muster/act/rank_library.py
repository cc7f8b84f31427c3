"""The folder by which `import muster` reaches a rank whose environment has none: it holds one link to this package.

The package's own parent would bring everything else that is installed beside it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from os import path as paths

from muster.errors import RequestError
from muster.ownership import Trust


def make_rank_library(folder: str | None) -> None:
    """Make the folder that the plan puts last on PYTHONPATH, if it names one."""
    if folder is None:
        return
    package = paths.dirname(paths.dirname(paths.realpath(__file__)))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.symlink(package, f"{folder}/muster")
        _check_link(folder, package)
    except OSError as error:
        raise RequestError(
            f"the folder of the rank library, {folder}, cannot be made: {error.strerror}",
            hint="set XDG_DATA_HOME to a directory that you can write and the compute nodes can see",
        ) from None


def _check_link(folder: str, package: str) -> None:
    """Refuse a link that others may change: every rank imports what lies there."""
    refusal = None if paths.realpath(f"{folder}/muster") == package else f"{folder}/muster leads elsewhere"
    refusal = refusal or Trust().refusal(f"{folder}/_")
    if refusal is not None:
        raise RequestError(
            f"the folder of the rank library is not safe: {refusal}",
            hint="remove it, or set XDG_DATA_HOME to a directory of your own that the compute nodes can see",
        )
