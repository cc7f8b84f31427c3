"""The launch that measures, followed on the terminal; its lines and its files, read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from msgspec.structs import replace

from muster.cli.command_line import Words
from muster.cli.output import say
from muster.errors import RequestError

if TYPE_CHECKING:
    from muster_bench.results import Series


_LONGEST_LINE = 1 << 22
INTERRUPTED = 130


def measure(command: Sequence[str], words: Words) -> tuple[Series, int]:
    """Return the series as far as it came, and the status of the launch."""
    from muster.runner import PIPE, start
    from muster_bench.results import Series, add, read_line

    quiet = words.quiet
    process = start([*command[:4], "--no-label", *(["--quiet"] if quiet else []), *command[4:]], stdout=PIPE)
    assert process.stdout is not None  # noqa: S101  # asked for above
    series = Series()
    progress = Progress(quiet=quiet)
    say("starting the ranks; the first row takes some seconds", quiet=quiet)
    interrupted = False
    with _kept(words.log) as log:
        try:
            for line in read_lines(process.stdout):
                if log is not None:
                    log.write(line)
                    log.flush()
                try:
                    record = read_line(line)
                except ValueError:
                    series = replace(series, unreadable=series.unreadable + 1)
                    continue
                if record is None:
                    print(line, end="", file=sys.stderr, flush=True)
                else:
                    series = add(series, record)
                    progress.show(record)
        except KeyboardInterrupt:
            interrupted = True  # the launch has had the same signal and ends its ranks; what is measured is kept
        status = process.wait()
    return series, INTERRUPTED if interrupted else status


_UNLIMITED = 1 << 20


def terminal_room(stream: TextIO) -> int:
    """Return how many columns a line may have: a terminal's, or as many as it wants."""
    import shutil

    return shutil.get_terminal_size().columns if stream.isatty() else _UNLIMITED


class Progress:
    """The table while it grows, on stderr: one line a row, drawn in colour on a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.began = False

    def show(self, record: object) -> None:
        """Take one more record; a record that is not a row is shown in a few words."""
        if self.quiet:
            return
        from muster_bench.results import CollectiveRow, Pairs, ProbeResult
        from muster_bench.table import COLUMNS, cells

        if isinstance(record, CollectiveRow):
            if not self.began:
                self._line(COLUMNS)
            self.began = True
            self._line(cells(record), wrong=bool(record.wrong))
        elif isinstance(record, ProbeResult) and record.medians:
            values = sorted(record.medians.values())
            say(f"{record.name}: {values[0]:.3g} to {values[-1]:.3g} {record.unit}")
        elif isinstance(record, Pairs):
            say(f"pairs of nodes, round {record.round + 1}")

    def _line(self, cells: Sequence[str], *, wrong: bool = False) -> None:
        from muster_bench.table import columns_for

        widths = (17, 15, 9, 6, 10, 10, 10, 5, 9, 9, 11, 5)
        columns = columns_for(terminal_room(sys.stderr), [width + 1 for width in widths])
        words = [
            cells[index].ljust(widths[index]) if index < 4 else cells[index].rjust(widths[index]) for index in columns
        ]
        red = wrong and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        line = " ".join(words)
        print(f"\033[31m{line}\033[0m" if red else line, file=sys.stderr, flush=True)


class _kept:  # noqa: N801  # a context, said like a function
    """The log file, where one is wanted."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> IO[str] | None:
        if self._path is not None:
            try:
                self._file = Path(self._path).open("w", encoding="utf-8")
            except OSError as error:
                raise RequestError(f"--log {self._path}: {error.strerror}", hint="name a file you can write") from None
        return self._file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def read_lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield the lines of something that may be binary, or one line of gigabytes: a piece at a time."""
    while piece := stream.readline(_LONGEST_LINE):
        yield piece.decode(errors="replace")


def read_log(path: Path) -> Series:
    from muster_bench.results import read_series

    results_file = path / "bench.jsonl" if path.is_dir() else path
    try:
        with results_file.open("rb") as file:
            series = read_series(read_lines(file))
    except OSError as error:
        raise RequestError(
            f"{results_file}: {error.strerror}", hint="give a log of --log, or the run directory of --submit"
        ) from None
    if series.start is None and not series.refused:
        raise RequestError(
            f"{results_file} holds no results of muster bench",
            hint="give a log of --log, or the run directory of --submit",
        )
    return series
