"""The folder by which `import muster` reaches a rank whose environment has none: it holds one link to this package.

The package's own parent would bring everything else that is installed beside it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from muster.errors import RequestError
from muster.ownership import Trust


def make_rank_library(folder: str | None) -> None:
    """Make the folder that the plan puts last on PYTHONPATH, if it names one."""
    if folder is None:
        return
    package = Path(__file__).resolve().parent.parent
    link = Path(folder) / "muster"
    try:
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            link.symlink_to(package)
        _check_link(link, package)
    except OSError as error:
        raise RequestError(
            f"the folder of the rank library, {folder}, cannot be made: {error.strerror}",
            hint="set XDG_DATA_HOME to a directory that you can write and the compute nodes can see",
        ) from None


def _check_link(link: Path, package: Path) -> None:
    """Refuse a link that others may change: every rank imports what lies there."""
    refusal = None if link.resolve() == package else f"{link} leads elsewhere"
    refusal = refusal or Trust().refusal(link.parent / "_")
    if refusal is not None:
        raise RequestError(
            f"the folder of the rank library is not safe: {refusal}",
            hint="remove it, or set XDG_DATA_HOME to a directory of your own that the compute nodes can see",
        )
