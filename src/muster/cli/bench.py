"""muster bench: bandwidth of the fabric, and of each rank's own parts, with a verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from muster.cli.launching import facts_and_request, start_by_name, take_own
from muster.cli.output import print_json, print_table, say
from muster.errors import RequestError
from muster.units import shown, whole_number

if TYPE_CHECKING:
    from muster.bench.history import History
    from muster.bench.judge import Finding, Judgement
    from muster.bench.order import Order
    from muster.bench.results import Series
    from muster.facts import Facts
    from muster.job.request import Request

_USAGE = "muster bench [OPTION…]"
_SUMMARY = """\
Measure what the ranks can send to each other, check every value that arrives, and judge it: against what the site
publishes, against the line rate of its network, or (--compare) against this machine's own earlier runs. Takes the
options of `muster run` for where and how: they follow below.
Status 0: nothing is broken; 1: something is, or the series was cut short.

what is measured:
  --collective LIST   all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv; default: all
  --sizes SIZES       8B..16GiB by powers of two, or 1MiB,64MiB; default: that, up to 64MiB on CPUs, as far as fits
  --dtype LIST        float32 (default), float16, bfloat16, float64, int8, int32, int64
  --place WHICH       in, out or both (default)
  --parts LIST        nodes: 1, 2, 4 … all of them; intra: within each node; inter: one rank a node; pairs: of nodes;
                      devices: each rank alone; default: all of it
  --pairs N|all       rounds of disjoint pairs of nodes (6); all: every node with every other
  --pair-size SIZE    what a rank sends in them (16MiB)
  --trials N          trials of each row (7), whose median counts
  --iterations N      runs back to back in a trial, at most (20)
  --storage DIR       the directory whose storage is measured; default: this one

what becomes of it:
  --json              the results as one JSON document on stdout
  --plot FILE         a picture: .png, .svg or .pdf (needs matplotlib)
  --html FILE         one page that opens without a network
  --log FILE          keep the lines of the ranks; --read takes them
  --read FILE         run nothing: judge what a log, or a run directory of --submit, holds
  --compare           judge against the history
  --history FILE      another history than the one in your state directory
  --no-history        do not add this run to it
  --submit            queue the whole series; prints the job id
  --quiet             no progress on stderr"""

_SWITCHES = ("-h", "--help", "--json", "--compare", "--no-history", "--submit", "--quiet")
_VALUED = (
    "--collective",
    "--sizes",
    "--dtype",
    "--place",
    "--parts",
    "--pairs",
    "--pair-size",
    "--trials",
    "--iterations",
    "--storage",
    "--plot",
    "--html",
    "--log",
    "--read",
    "--history",
)
_DEFAULT_SIZES = "8B..16GiB"
_LONGEST_LINE = 1 << 22
_INTERRUPTED = 130


def main(words: Sequence[str]) -> int:
    """Measure or read, show, judge."""
    start_by_name("bench", words)
    rest, own = take_own(words, _SWITCHES, _VALUED)
    if "-h" in own or "--help" in own:
        from muster.job.options import help_page

        print(help_page(_USAGE, _SUMMARY, leave_out=("output", "error", "per_rank_files", "no_label")), end="")
        return 0
    _refuse_empty(own)
    rest = [word for word in rest if word != "--"]
    facts, request = facts_and_request(rest, is_first=False)
    if request.command:
        raise RequestError(
            f"muster bench takes no command, and there is {request.command[0]!r}", hint="muster run starts a command"
        )
    order = _order(own, facts.working_directory)
    _check_outputs(own)
    if "--submit" in own:
        return _submit(rest, order, request, own)
    status = 0
    if "--read" in own:
        series = _read(Path(own["--read"]))
    else:
        series, status = _measure(rest, order, request, own)
    return _conclude(series, status, facts, request, own)


def _refuse_empty(own: dict[str, str]) -> None:
    for name in _VALUED:
        if name in own and not own[name]:
            raise RequestError(f"{name} needs a value", hint="muster bench --help")
    if "--submit" in own:
        for name in ("--read", "--plot", "--html", "--log", "--json", "--compare"):
            if name in own:
                raise RequestError(
                    f"--submit queues the series, and there is nothing yet for {name}",
                    hint=f"when the job has run: muster bench --read RUN_DIRECTORY {name}",
                )


def _order(own: dict[str, str], directory: str) -> Order:
    """The series, from the options."""
    from random import randrange

    from muster.bench.factors import COLLECTIVES
    from muster.bench.order import DTYPES, PARTS, Order, choose, parse_bytes, parse_sizes
    from muster.errors import UnknownName

    place = own.get("--place", "both")
    if place not in {"in", "out", "both"}:
        raise UnknownName("place", place, ("in", "out", "both"))
    rounds = own.get("--pairs", "6")
    return Order(
        parts=choose(own["--parts"], "part", PARTS) if "--parts" in own else PARTS,
        collectives=choose(own["--collective"], "collective", COLLECTIVES) if "--collective" in own else COLLECTIVES,
        dtypes=choose(own["--dtype"], "type of element", DTYPES) if "--dtype" in own else ("float32",),
        place=place,
        sizes=parse_sizes(own.get("--sizes", _DEFAULT_SIZES)),
        sizes_asked="--sizes" in own,
        trials=_count(own, "--trials", 7),
        iterations=_count(own, "--iterations", 20),
        pair_rounds=None if rounds == "all" else _count({"--pairs": rounds}, "--pairs", 6),
        pair_bytes=parse_bytes(own.get("--pair-size", "16MiB")) // 4 * 4,
        seed=randrange(1 << 31),  # noqa: S311  # which pairs meet first
        storage=str(Path(directory) / own.get("--storage", ".")),
    )


def _count(own: dict[str, str], name: str, default: int) -> int:
    text = own.get(name, str(default))
    number = whole_number(text)
    if number is None or not 0 < number <= 1000:
        raise RequestError(f"{name} {shown(text)} is not a count", hint="a whole number from 1 to 1000")
    return number


def _check_outputs(own: dict[str, str]) -> None:
    """Hours of measuring must not end in a file that cannot be written."""
    from muster.bench.draw import FORMATS

    for name in ("--plot", "--html", "--log"):
        if name in own and not Path(own[name]).parent.is_dir():
            raise RequestError(
                f"{name} {own[name]}: there is no directory {Path(own[name]).parent}", hint="make it first"
            )
    if "--plot" in own:
        from importlib.util import find_spec

        from muster.errors import MachineLacks

        if Path(own["--plot"]).suffix.lower() not in FORMATS:
            raise RequestError(f"--plot {own['--plot']}: not a kind of picture", hint=f"end it in {', '.join(FORMATS)}")
        if find_spec("matplotlib") is None:
            raise MachineLacks(
                "matplotlib", "--plot needs matplotlib, which this environment lacks", "pip install 'muster-hpc[plot]'"
            )


# --- measuring ------------------------------------------------------------------------------------------------------


def _command(verb: str, rest: Sequence[str], order: Order, request: Request) -> list[str]:
    """The same launch that anybody's script gets."""
    name = [] if request.given("job_name") else ["--job-name", "muster-bench"]
    series = ["python", "-m", "muster.bench.ranks.series", order.as_json()]
    return [sys.executable, "-m", "muster", verb, *rest, *name, "--", *series]


def _submit(rest: Sequence[str], order: Order, request: Request, own: dict[str, str]) -> int:
    from muster.runner import start

    command = _command("submit", rest, order, request)
    process = start([*command[:4], *(["--quiet"] if "--quiet" in own else []), *command[4:]])
    status = process.wait()
    if status == 0:
        say("when it has run: muster bench --read RUN_DIRECTORY", quiet="--quiet" in own)
    return status


def _measure(rest: Sequence[str], order: Order, request: Request, own: dict[str, str]) -> tuple[Series, int]:
    """The series as far as it came, and the status of the launch."""
    from muster.bench.results import Series, add, read_line
    from muster.runner import PIPE, start

    quiet = "--quiet" in own
    command = _command("run", rest, order, request)
    process = start([*command[:4], "--no-label", *(["--quiet"] if quiet else []), *command[4:]], stdout=PIPE)
    assert process.stdout is not None  # noqa: S101  # asked for above
    series = Series()
    progress = Progress(quiet=quiet)
    interrupted = False
    with _kept(own.get("--log")) as log:
        try:
            for line in _lines(process.stdout):
                if log is not None:
                    log.write(line)
                    log.flush()
                try:
                    record = read_line(line)
                except ValueError:
                    from msgspec.structs import replace

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
    return series, _INTERRUPTED if interrupted else status


class Progress:
    """The table while it grows, on stderr: one line a row, drawn in colour on a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.began = False

    def show(self, record: object) -> None:
        """One more record; what is no row is told in a few words."""
        if self.quiet:
            return
        from muster.bench.results import Pairs, Probe, Row
        from muster.bench.table import COLUMNS, cells

        if isinstance(record, Row):
            if not self.began:
                self._line(COLUMNS)
            self.began = True
            self._line(cells(record), wrong=bool(record.wrong))
        elif isinstance(record, Probe) and record.medians:
            values = sorted(record.medians.values())
            say(f"{record.name}: {values[0]:.3g} to {values[-1]:.3g} {record.unit}")
        elif isinstance(record, Pairs):
            say(f"pairs of nodes, round {record.round + 1}")

    def _line(self, cells: Sequence[str], *, wrong: bool = False) -> None:
        widths = (17, 15, 9, 6, 10, 10, 10, 5, 9, 9, 11, 5)
        words = [
            cell.ljust(width) if index < 4 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
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


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """The lines of something that may be binary, or one line of gigabytes: a piece at a time."""
    while piece := stream.readline(_LONGEST_LINE):
        yield piece.decode(errors="replace")


def _read(path: Path) -> Series:
    from muster.bench.results import read_series

    found = path / "bench.jsonl" if path.is_dir() else path
    try:
        with found.open("rb") as file:
            series = read_series(_lines(file))
    except OSError as error:
        raise RequestError(
            f"{found}: {error.strerror}", hint="a log of --log, or the run directory of --submit"
        ) from None
    if series.start is None and not series.refused:
        raise RequestError(
            f"{found} holds no results of muster bench", hint="a log of --log, or the run directory of --submit"
        )
    return series


# --- what becomes of it ---------------------------------------------------------------------------------------------


def _conclude(series: Series, status: int, facts: Facts, request: Request, own: dict[str, str]) -> int:
    """Show, judge, keep; the exit status."""
    from muster.bench.judge import judge
    from muster.sites.load import choose_site, overrides_from

    if series.refused:
        raise RequestError(series.refused, hint="give smaller --sizes, or fewer ranks to a node")
    if series.start is None:
        if status == 0:
            raise RequestError("no rank reported anything", hint="muster run -- python -c 'import torch'")
        return status
    simulated = request.here or len(set(series.start.hosts)) < series.start.nodes
    site = choose_site(request.site or ("laptop" if simulated else None), facts, overrides_from(request.site_set))
    history = _history(facts, own)
    judgements, findings = judge(series, site.profile, history if "--compare" in own else None)
    _show(series, judgements, findings, site.profile.name, own)
    if "--read" not in own and "--no-history" not in own:
        _remember(series, site.profile.name, facts, own)
    _cut_short(series, status)
    broken = "broken" in {*(one.verdict for one in judgements), *(one.verdict for one in findings)}
    return status or (1 if broken or not series.complete else 0)


def _cut_short(series: Series, status: int) -> None:
    """Say what is missing: a series that ended early is still shown, and never taken for whole."""
    if series.unreadable:
        say(f"warning: {series.unreadable} of the ranks' lines cannot be read and are left out")
    if not series.complete:
        last = series.rows[-1] if series.rows else None
        where = f" after {last.collective} of {last.bytes} bytes on {last.nodes} nodes" if last else ""
        failed = f": the launch ended with status {status}, and says above which rank failed" if status else ""
        how = ", by you" if status == _INTERRUPTED else failed
        say(f"warning: the series was cut short{where}{how}; the table holds what was measured")


def _show(
    series: Series, judgements: Sequence[Judgement], findings: Sequence[Finding], site: str, own: dict[str, str]
) -> None:
    from muster.bench.draw import draw
    from muster.bench.page import page
    from muster.bench.table import COLUMNS, NODE_COLUMNS, cells, document, node_cells, over_nodes

    if "--json" in own:
        print_json(document(series, judgements, findings, site))
    else:
        rows = [(*cells(row), one.verdict) for row, one in zip(series.rows, judgements, strict=True)]
        if rows:
            print_table("Collectives", (*COLUMNS, "verdict"), rows)
        scaling = over_nodes(series)
        if len(scaling) > 1:
            print()
            print_table("Over node counts", NODE_COLUMNS, [node_cells(row) for row in scaling])
        for told in dict.fromkeys(f"{one.collective}: n/a, {one.reason}" for one in series.absent):
            say(told, quiet="--quiet" in own)
        for reason in dict.fromkeys(
            f"{one.verdict}, by {one.against}: {one.reason}" for one in judgements if one.verdict != "unjudged"
        ):
            say(reason, quiet="--quiet" in own)
    unjudged = dict.fromkeys(one.reason for one in judgements if one.verdict == "unjudged")
    if unjudged and len(unjudged) <= 3:
        say(f"not judged: {'; '.join(unjudged)}", quiet="--quiet" in own)
    for finding in findings:
        say(f"{finding.verdict}: {finding.what}: {finding.text}")
    if "--html" in own:
        Path(own["--html"]).write_text(page(series, judgements, findings, site), encoding="utf-8")
    if "--plot" in own:
        draw(series, Path(own["--plot"]), site)


def _history_file(facts: Facts, own: dict[str, str]) -> Path:
    from muster.act.record import state_directory

    return (
        Path(own["--history"]) if "--history" in own else state_directory(facts.environment, facts.home) / "bench.jsonl"
    )


def _history(facts: Facts, own: dict[str, str]) -> History:
    from muster.bench.history import History, read_history

    path = _history_file(facts, own)
    try:
        with path.open("rb") as file:
            history = read_history(_lines(file))
    except FileNotFoundError:
        if "--compare" in own:
            say(f"warning: there is no history yet in {path}")
        return History()
    except OSError as error:
        raise RequestError(f"the history {path}: {error.strerror}", hint="--history FILE names another") from None
    if history.unreadable:
        say(f"warning: {history.unreadable} lines of the history {path} cannot be read; they are left as they are")
    return history


def _remember(series: Series, site: str, facts: Facts, own: dict[str, str]) -> None:
    """Append, in one write; a last line that was cut short stays a line of its own."""
    from muster.bench.history import lines_of

    path = _history_file(facts, own)
    text = "".join(f"{line}\n" for line in lines_of(series, site))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                text = text if file.read(1) == b"\n" else f"\n{text}"
            file.write(text.encode())
    except OSError as error:
        say(f"warning: the history {path} cannot be written: {error.strerror}")
