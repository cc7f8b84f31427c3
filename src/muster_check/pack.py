"""What checks in the ranks, as one file that stands alone."""

from __future__ import annotations

from pathlib import Path

from muster.act.pack import pack_sources, place_packed

_PARTS = (
    "muster_check/__init__.py",
    "muster_check/ranks/*.py",
    "muster/rank/__init__.py",
    "muster/rank/errors.py",
    "muster/rank/finding.py",
    "muster/rank/hostlist.py",
    "muster/rank/vendors.py",
)
_TEXTS = {
    "__main__.py": """\
import signal, sys

# Ctrl-C is not an error that Muster reports, while the modules are read neither.
if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from muster_check.ranks.gate import run

run(sys.argv[1:])
""",
    # The job's own environment may hold another Muster: nothing of that one is to be found.
    "muster/__init__.py": '"""Packed for the nodes of a job."""\n',
}


def packed() -> bytes:
    """Return the file."""
    return pack_sources(_PARTS, _TEXTS)


def place_check(path: Path) -> None:
    """Write the file to `path`, unless it is there."""
    place_packed(packed(), path, "the check")
