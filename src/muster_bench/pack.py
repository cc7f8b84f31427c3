"""What measures in the ranks, as one file: the ranks need no Muster beside `import muster`."""

from __future__ import annotations

from pathlib import Path

from muster.act.pack import pack_sources, place_packed

_PARTS = ("muster_bench/__init__.py", "muster_bench/ranks/*.py")
_START = "import sys\n\nfrom muster_bench.ranks.series import main\n\nsys.exit(main(sys.argv[1:]))\n"
_TIMED_START = (
    "import time\n\nbegun = time.time()\nfrom muster_bench.ranks.start import main\n\nraise SystemExit(main(begun))\n"
)
NAME = "muster-bench.pyz"


def place_series(folder: Path) -> Path:
    """Write the file into a folder that the nodes can see, unless it is there; return its path."""
    path = folder / NAME
    place_packed(pack_sources(_PARTS, {"__main__.py": _START}), path, "the measurement")
    return path


def place_start(folder: Path) -> Path:
    """Write the file that measures one start into a folder that the nodes can see; return its path."""
    path = folder / "muster-bench-start.pyz"
    parts = ("muster_bench/__init__.py", "muster_bench/ranks/__init__.py", "muster_bench/ranks/start.py")
    place_packed(pack_sources(parts, {"__main__.py": _TIMED_START}), path, "the measurement")
    return path
