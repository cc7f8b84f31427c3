"""muster bench: bandwidth of the fabric, and of each rank's own parts, with a verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.command_line import JSON, QUIET, CommandLine, Words, fields_but
from muster.cli.launching import facts_and_request, start_by_name
from muster.cli.output import print_json, print_table, say
from muster.errors import RequestError
from muster.job.option import option, parse_count
from muster.job.request import Request
from muster.older import zip_equal
from muster.runner import own_command, start
from muster_bench.verbs.measure import INTERRUPTED, measure, read_lines, read_log, terminal_room

if TYPE_CHECKING:
    from muster.facts import Facts
    from muster_bench.history import History
    from muster_bench.judge import Judgement, Remark
    from muster_bench.order import Order
    from muster_bench.results import Series

_DEFAULT_SIZES = "8B..16GiB"


def main(words: Words) -> int:
    """Measure or read, show, judge."""
    start_by_name("bench", words.without())
    _refuse_beside_submit(words)
    facts, request = facts_and_request(words.launch, is_first=False)
    if words.start:
        from muster_bench.verbs.starts import measure_starts

        return measure_starts(facts, request, words)
    rest = words.launch.typed
    order = _order(words, facts.working_directory)
    _check_outputs(words)
    if words.submit:
        return _submit(_command("submit", rest, order, facts, request), words)
    status = 0
    if words.read:
        series = read_log(Path(words.read))
    else:
        series, status = measure(_command("run", rest, order, facts, request), words)
    return _conclude(series, status, facts, request, words)


def _refuse_beside_submit(words: Words) -> None:
    if words.submit:
        for name in ("read", "html", "log", "json", "compare"):
            if getattr(words, name):
                raise RequestError(
                    f"--submit queues the series, and there is nothing yet for --{name}",
                    hint=f"when the job has run: muster bench --read RUN_DIRECTORY --{name}",
                )


def _order(words: Words, directory: str) -> Order:
    """Return the series, from the options."""
    from random import randrange

    from muster_bench.factors import COLLECTIVES
    from muster_bench.order import DTYPES, PARTS, Order, choose, parse_bytes, parse_sizes

    return Order(
        parts=choose(words.parts, "part", PARTS) if words.parts else PARTS,
        collectives=choose(words.collective, "collective", COLLECTIVES) if words.collective else COLLECTIVES,
        dtypes=choose(words.dtype, "type of element", DTYPES) if words.dtype else ("float32",),
        place=words.place,
        sizes=parse_sizes(words.sizes or _DEFAULT_SIZES),
        sizes_asked=words.sizes is not None,
        trials=words.trials,
        iterations=words.iterations,
        pair_rounds=words.pairs or None,
        pair_bytes=parse_bytes(words.pair_size) // 4 * 4,
        seed=randrange(1 << 31),  # noqa: S311  # which pairs meet first
        storage=str(Path(directory) / words.storage),
    )


def _parse_rounds(value: str) -> int:
    """Return the number of rounds; 0: all of them."""
    return 0 if value == "all" else parse_count(1, 1000)(value)


def _check_outputs(words: Words) -> None:
    """Refuse an output file that cannot be written: hours of measuring must not end in an error."""
    for name, file in (("html", words.html), ("log", words.log)):
        if file and not Path(file).parent.is_dir():
            raise RequestError(f"--{name} {file}: there is no directory {Path(file).parent}", hint="make it first")
        place = Path(file or ".")
        if file and (place.is_dir() or not os.access(place if place.exists() else place.parent, os.W_OK)):
            reason = "it is a directory" if place.is_dir() else "you cannot write it"
            raise RequestError(f"--{name} {file}: {reason}", hint="name a file that you can write")


# --- measuring ------------------------------------------------------------------------------------------------------


def _command(verb: str, rest: Sequence[str], order: Order, facts: Facts, request: Request) -> list[str]:
    """Return the launch that every script gets."""
    from muster_bench.pack import place_series

    name = [] if request.given("job_name") else ["--job-name", "muster-bench"]
    series = ["python", str(place_series(Path(facts.working_directory, "muster-runs"))), order.as_json()]
    return [*own_command(), verb, *rest, *name, "--", *series]


def _submit(command: Sequence[str], words: Words) -> int:
    process = start([*command[:4], *(["--quiet"] if words.quiet else []), *command[4:]])
    status = process.wait()
    if status == 0:
        say("when it has run: muster bench --read RUN_DIRECTORY", quiet=words.quiet)
    return status


# --- what becomes of it ---------------------------------------------------------------------------------------------


def _conclude(series: Series, status: int, facts: Facts, request: Request, words: Words) -> int:
    """Show, judge, keep; the exit status."""
    from muster.sites.load import choose_site, overrides_from
    from muster_bench.judge import judge

    if series.refused:
        raise RequestError(series.refused, hint="give smaller --sizes, or fewer ranks to a node")
    if series.start is None:
        if status == 0:
            raise RequestError("no rank reported anything", hint="muster run -- python -c 'import torch'")
        return status
    simulated = request.here or len(set(series.start.hosts)) < series.start.nodes
    site = choose_site(request.site or ("laptop" if simulated else None), facts, overrides_from(request.site_set))
    history = _history(facts, words)
    judgements, findings = judge(series, site.profile, history if words.compare else None)
    _show(series, judgements, findings, site.profile.name, words)
    if not words.read and not words.no_history:
        _remember(series, site.profile.name, facts, words)
    _cut_short(series, status)
    broken = "broken" in {*(judgement.verdict for judgement in judgements), *(finding.verdict for finding in findings)}
    return status or (1 if broken or not series.complete else 0)


def _cut_short(series: Series, status: int) -> None:
    """Say what is missing: a series that ended early is still shown, and never taken for whole."""
    if series.unreadable:
        say(f"warning: {series.unreadable} of the ranks' lines cannot be read and are left out")
    if not series.complete:
        last = series.rows[-1] if series.rows else None
        place = f" after {last.collective} of {last.bytes} bytes on {last.nodes} nodes" if last else ""
        failed = f": the launch ended with status {status}, and says above which rank failed" if status else ""
        ending = ", by you" if status == INTERRUPTED else failed
        say(f"warning: the series was cut short{place}{ending}; the table holds what was measured")


def _show(series: Series, judgements: Sequence[Judgement], findings: Sequence[Remark], site: str, words: Words) -> None:
    from muster_bench.page import page
    from muster_bench.peaks import shares_of_peak
    from muster_bench.table import COLUMNS, NODE_COLUMNS, cells, document, node_cells, over_nodes

    if words.json:
        print_json(document(series, judgements, findings, site))
    else:
        rows = [(*cells(row), judgement.verdict) for row, judgement in zip_equal(series.rows, judgements)]
        if rows:
            _print_rows((*COLUMNS, "verdict"), rows, quiet=words.quiet)
        scaling = over_nodes(series)
        if len(scaling) > 1:
            print()
            print_table("Over node counts", NODE_COLUMNS, [node_cells(row) for row in scaling])
        for share in shares_of_peak(series):
            say(share.text, quiet=words.quiet)
        for sentence in dict.fromkeys(f"{absence.collective}: n/a, {absence.reason}" for absence in series.absent):
            say(sentence, quiet=words.quiet)
        for (place, collective, _, _, size, *_), judgement in zip_equal(map(cells, series.rows), judgements):
            if judgement.verdict != "unjudged":
                sentence = f"{judgement.verdict}, by {judgement.against}: {judgement.reason}"
                say(f"{collective} {size}, {place}: {sentence}", quiet=words.quiet)
    unjudged = dict.fromkeys(judgement.reason for judgement in judgements if judgement.verdict == "unjudged")
    if unjudged and len(unjudged) <= 3:
        say(f"not judged: {'; '.join(unjudged)}", quiet=words.quiet)
    for finding in findings:
        say(f"{finding.verdict}: {finding.what}: {finding.text}")
    if words.html:
        Path(words.html).write_text(page(series, judgements, findings, site), encoding="utf-8")


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], *, quiet: bool) -> None:
    """Print the table, with as many of its columns as the terminal has room for."""
    from muster_bench.table import columns_for

    widths = [max(len(row[index]) for row in (columns, *rows)) + 3 for index in range(len(columns))]
    shown_columns = [*columns_for(terminal_room(sys.stdout) - 1 - widths[-1], widths[:-1]), len(columns) - 1]
    print_table(
        "Collectives",
        [columns[column] for column in shown_columns],
        [[row[column] for column in shown_columns] for row in rows],
    )
    left_out = [name for index, name in enumerate(columns) if index not in shown_columns]
    if left_out:
        say(f"left out on this narrow terminal: {', '.join(left_out)}; --json and --html have all", quiet=quiet)


def _history_file(facts: Facts, words: Words) -> Path:
    from muster.act.record import state_directory

    return Path(words.history) if words.history else state_directory(facts.environment, facts.home) / "bench.jsonl"


def _history(facts: Facts, words: Words) -> History:
    from muster_bench.history import History, read_history

    path = _history_file(facts, words)
    try:
        with path.open("rb") as file:
            history = read_history(read_lines(file))
    except FileNotFoundError:
        if words.compare:
            say(f"warning: there is no history yet in {path}")
        return History()
    except OSError as error:
        raise RequestError(f"the history {path}: {error.strerror}", hint="name another: --history FILE") from None
    if history.unreadable:
        say(f"warning: {history.unreadable} lines of the history {path} cannot be read; they are left as they are")
    return history


def _remember(series: Series, site: str, facts: Facts, words: Words) -> None:
    """Append, in one write; a last line that was cut short stays a line of its words."""
    from muster_bench.history import history_lines

    path = _history_file(facts, words)
    text = "".join(f"{line}\n" for line in history_lines(series, site))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                text = text if file.read(1) == b"\n" else f"\n{text}"
            file.write(text.encode())
    except OSError as error:
        say(f"warning: the history {path} cannot be written: {error.strerror}")


_MEASURED = "what is measured"
_AFTERWARDS = "what becomes of it"
COMMAND = CommandLine(
    name="bench",
    start=main,
    summary="""\
Measure what the ranks can send to each other, check every value that arrives, and judge it: against what the site
publishes, against the line rate of its network, or (--compare) against this machine's own earlier runs.

Status 0: nothing is broken; 1: something is, or the series was cut short.""",
    fields=fields_but("output", "error", "per_rank_files", "no_label"),
    hint="muster run starts a command",
    options=(
        option(
            "--collective LIST",
            "what to measure: all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv (default: all)",
            is_common=True,
            group=_MEASURED,
        ),
        option(
            "--sizes SIZES",
            "sizes of the messages: a range in powers of two, 8B..1GiB, or a list, 1MiB,64MiB (default: "
            "8B..16GiB, on CPUs up to 64MiB)",
            is_common=True,
            group=_MEASURED,
        ),
        option(
            "--dtype LIST",
            "types of the elements: float32, float16, bfloat16, float64, int8, int32, int64 (default: float32)",
            group=_MEASURED,
        ),
        option(
            "--place WHICH",
            "where the result is written: in (over the input), out (beside it) or both",
            choices=("in", "out", "both"),
            default="both",
            group=_MEASURED,
        ),
        option(
            "--parts LIST",
            "which ranks take part: nodes (1, 2, 4 … all of them), intra (within each node), inter (one rank "
            "of each node), pairs (of nodes), devices (each rank alone) (default: all five)",
            group=_MEASURED,
        ),
        option(
            "--pairs N|all",
            "how many rounds of pairs of nodes; in a round each node is in one pair; all: until each node has"
            " met each other",
            _parse_rounds,
            default=6,
            group=_MEASURED,
        ),
        option("--pair-size SIZE", "how much each rank sends in a round of --pairs", default="16MiB", group=_MEASURED),
        option(
            "--trials N",
            "trials of each row; the row shows their median",
            parse_count(1, 1000),
            default=7,
            group=_MEASURED,
        ),
        option(
            "--iterations N",
            "most runs in one trial, one directly after the other",
            parse_count(1, 1000),
            default=20,
            group=_MEASURED,
        ),
        option("--storage DIR", "directory whose storage is measured", default=".", group=_MEASURED),
        option(
            "--start",
            "measure no bandwidth but what a start costs on 1, 2, 4 … N nodes: launch, prologue, import, joining, "
            "first collective; in one job",
            is_common=True,
            group=_MEASURED,
        ),
        JSON,
        option(
            "--html FILE", "write one page that opens without a network: bench.html", is_common=True, group=_AFTERWARDS
        ),
        option("--log FILE", "write the lines of the ranks to a file, for --read", group=_AFTERWARDS),
        option("--read FILE", "judge a log, or the run directory of --submit, and run nothing", group=_AFTERWARDS),
        option(
            "--compare",
            "judge against earlier runs on this machine, which the history keeps",
            is_common=True,
            group=_AFTERWARDS,
        ),
        option("--history FILE", "file of the history (default: the one in your state directory)", group=_AFTERWARDS),
        option("--no-history", "do not add this run to the history", group=_AFTERWARDS),
        option("--submit", "queue the whole series as a job; prints its id", is_common=True, group=_AFTERWARDS),
        QUIET,
    ),
    examples=("muster bench -N 2 -g 4 --html bench.html",),
)
