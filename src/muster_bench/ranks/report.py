"""The lines by which rank 0 tells what was measured: JSON behind a mark, on stdout and in the run's directory."""

import json
import os
import sys
from typing import Any, Mapping, Optional, TextIO

MARK = "muster-bench "
FILE_NAME = "bench.jsonl"


class Reporter:
    """Rank 0 writes each record the moment it is known, so that nothing is lost with a rank that dies later."""

    def __init__(self, rank: int, directory: Optional[str]) -> None:
        self._speaks = rank == 0
        self._file = _open(directory) if self._speaks and directory else None

    def tell(self, kind: str, record: Mapping[str, Any]) -> None:
        """Write one record; on other ranks nothing."""
        if not self._speaks:
            return
        line = json.dumps({"kind": kind, **record})
        print(MARK + line, flush=True)
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()


def _open(directory: str) -> Optional[TextIO]:
    if not os.path.isdir(directory):
        return None
    try:
        return open(os.path.join(directory, FILE_NAME), "a", encoding="utf-8")
    except OSError as error:
        print(f"muster bench: no results file in {directory}: {error.strerror}", file=sys.stderr, flush=True)
        return None
