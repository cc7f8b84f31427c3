"""The files of a run directory that one attempt or link leaves to the next, and to `muster why`: read and written here.

Standard library only, Python 3.6. RUN/attempts is written by the script itself (render/shell/again/attempt.sh).
"""

import os
import time
from typing import Dict, Iterator, List, Optional, Tuple


class RunFiles:
    """One run directory; without a folder nothing is kept, and nothing is found."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def lines(self, name: str) -> List[str]:
        """Return the lines of a file; none where there is no such file."""
        if not self.folder:
            return []
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                return os.fsdecode(file.read()).splitlines()
        except OSError:
            return []

    def rows(self, name: str) -> Iterator[List[str]]:
        """Yield the lines of a file as fields."""
        return (line.split("\t") for line in self.lines(name))

    def has(self, name: str) -> bool:
        """Return whether the folder holds such a file."""
        return bool(self.folder) and os.path.exists(os.path.join(self.folder, name))

    def add(self, name: str, *fields: object) -> None:
        """Append a row; a disk that takes nothing more ends no job."""
        text = "\t".join(str(field).replace("\t", " ").replace("\n", " ") for field in fields) + "\n"
        self._write(name, text, os.O_APPEND)

    def put(self, name: str, text: str) -> None:
        """Write a whole file: who reads it meanwhile reads all of the old one, or all of the new one."""
        self._write(name + ".new", text, os.O_TRUNC, name)

    def claim(self, name: str, text: str) -> str:
        """Make a file, unless it is there; return what it holds then."""
        self._write(name, text + "\n", os.O_EXCL)
        for _ in range(20):
            lines = self.lines(name)
            if lines or not self.has(name):
                break
            time.sleep(0.1)  # another job has made it, and not written yet
        return next(iter(lines), text)

    def _write(self, name: str, text: str, how: int, last_name: str = "") -> None:
        if not self.folder:
            return
        try:
            number = os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_CREAT | how, 0o600)
            with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            if last_name:
                os.replace(os.path.join(self.folder, name), os.path.join(self.folder, last_name))
        except OSError:
            pass

    # Attempts

    def attempts(self) -> List[Tuple[int, str, str]]:
        """Return the attempts that began: number, nodes, job."""
        rows = ([*row, "", "", "", ""][:5] for row in self.rows("attempts"))
        return [(int(row[0]), row[2], row[4]) for row in rows if row[0].isdigit()]

    def last_attempt(self, job: str) -> Optional[int]:
        """Return the number of the last attempt of a job."""
        numbers = [number for number, _, of in self.attempts() if of == job]
        return numbers[-1] if numbers else None

    def decision(self, attempt: Optional[int]) -> str:
        """Return what was decided at the end of an attempt; empty where that is not written down."""
        rows = [row for row in self.rows("ends") if len(row) > 6 and row[0] == str(attempt)]
        return rows[-1][6] if rows else ""

    # Links

    def links(self) -> Dict[int, str]:
        """Return the jobs of the links that are known."""
        return {int(row[0]): row[1] for row in self.rows("links") if len(row) > 1 and row[0].isdigit()}

    def note_link(self, link: int, job: str) -> None:
        """Write down which job a link is, once."""
        if self.links().get(link) != job:
            self.add("links", link, job, int(time.time()))

    def over(self) -> str:
        """Return why nothing is left to do; empty: that is not said."""
        return " ".join(self.lines("over")) or ("it is over" if self.has("over") else "")

    def count_idle_links(self, link: int, checkpoint: str) -> int:
        """Return how many of the two links before began with this checkpoint; write down that this one does."""
        began = {row[0]: row[1] for row in self.rows("progress") if len(row) > 1}
        if str(link) in began:
            return 0  # Slurm has put this link back into the queue
        self.add("progress", link, checkpoint)
        return sum(began.get(str(link - back)) == checkpoint for back in (1, 2))
