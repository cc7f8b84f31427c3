"""What measures in the ranks, as one file: the ranks need no Muster beside `import muster`."""

from __future__ import annotations

from pathlib import Path

from muster.act.pack import pack_sources, place_packed

_PARTS = ("muster_bench/__init__.py", "muster_bench/ranks/*.py")
_START = "import sys\n\nfrom muster_bench.ranks.series import main\n\nsys.exit(main(sys.argv[1:]))\n"
NAME = "muster-bench.pyz"


def place_series(folder: Path) -> Path:
    """Write the file into a folder that the nodes can see, unless it is there; return its path."""
    path = folder / NAME
    place_packed(pack_sources(_PARTS, {"__main__.py": _START}), path, "the measurement")
    return path
