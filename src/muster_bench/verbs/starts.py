"""muster bench --start: what a start costs by number of nodes, measured in one job."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from muster.cli.command_line import Words
from muster.cli.output import print_json, print_table, say
from muster.errors import RequestError
from muster.runner import PIPE, own_command, start
from muster_bench.verbs.measure import read_lines

if TYPE_CHECKING:
    from muster.facts import Facts
    from muster.job.request import Request
    from muster_bench.starts import StartRow

_ELSEWHERE = (
    *("submit", "read", "log", "compare", "collective", "sizes", "dtype"),
    *("place", "parts", "pairs", "pair_size", "trials", "iterations", "storage"),
)


def measure_starts(facts: Facts, request: Request, words: Words) -> int:
    """Measure the starts here or in the allocation; else get one first, and do it there. Returns the exit status."""
    from muster.look.place import RunPlace, place_of

    for name in _ELSEWHERE:
        if name in words.typed.values:
            flag = words.typed.origins[name].where
            raise RequestError(f"--start measures no bandwidth, and {flag} is for that", hint=f"omit {flag}")
    place, _ = place_of(request, facts)
    if place is RunPlace.ALLOCATE:
        return _in_a_job(words)
    most = 1 if place is RunPlace.HERE else request.nodes or _granted(facts)
    return _conclude(_measure(most, facts, request, words), facts, words)


def _granted(facts: Facts) -> int:
    return int(facts.environment.get("SLURM_JOB_NUM_NODES") or 1)


def _in_a_job(words: Words) -> int:
    """Do all in one allocation: whoever waits in a queue waits once."""
    own = [f"--{name}" for name in ("json", "quiet") if getattr(words, name)]
    own += [
        word for name in ("html", "history") if getattr(words, name) for word in (f"--{name}", getattr(words, name))
    ]
    own += ["--no-history"] if words.no_history else []
    again = [*own_command(), "bench", "--start", *own, *words.launch.typed]
    quiet = ["--quiet"] if words.quiet else []
    return start([*own_command(), "shell", *quiet, *words.launch.typed, "--", *again]).wait()


def _measure(most: int, facts: Facts, request: Request, words: Words) -> list[StartRow]:
    from muster.sites.load import choose_site, overrides_from
    from muster_bench.pack import place_start
    from muster_bench.starts import node_counts, read_rank, row_of

    site = choose_site(request.site, facts, overrides_from(request.site_set)).profile.name
    program = ["python", str(place_start(Path(facts.working_directory, "muster-runs")))]
    rows: list[StartRow] = []
    for nodes in node_counts(most):
        size = ["--nodes", str(nodes)] if most > 1 else []
        command = [*own_command(), "run", *words.launch.typed, *size, "--no-label", "--quiet", "--", *program]
        begun, ranks = time.time(), []
        process = start(command, stdout=PIPE)
        assert process.stdout is not None  # noqa: S101  # asked for above
        with process.stdout as lines:
            for line in read_lines(lines):
                rank = read_rank(line)
                if rank is None:
                    sys.stderr.write(line)
                else:
                    ranks.append(rank)
        status = process.wait()
        if status or not ranks:
            raise RequestError(
                f"the start on {nodes} nodes ended with status {status}, and {len(ranks)} ranks have answered",
                hint="the launch says above what went wrong; muster run -- python -c 'import torch'",
            )
        rows.append(row_of(ranks, nodes, begun, site))
        total = sum(rows[-1].slowest_s.values())
        say(f"nodes: {nodes}, ranks: {len(ranks)}, {total:.1f} s to the end of the first collective", quiet=words.quiet)
    if not rows[-1].torch:
        say("warning: the ranks' Python has no torch, so nothing is known of joining")
    return rows


def _conclude(rows: Sequence[StartRow], facts: Facts, words: Words) -> int:
    from muster.act.record import state_directory
    from muster_bench.start_page import phase_cells, start_page
    from muster_bench.starts import PHASES, read_rows

    kept = state_directory(facts.environment, facts.home) / "bench-start.jsonl"
    file = Path(words.history) if words.history else kept
    try:
        with file.open("rb") as stream:
            earlier, unreadable = read_rows(read_lines(stream))
    except FileNotFoundError:
        earlier, unreadable = (), 0
    except OSError as error:
        raise RequestError(f"the history {file}: {error.strerror}", hint="name another: --history FILE") from None
    if unreadable:
        say(f"warning: {unreadable} lines of the history {file} cannot be read; they are left as they are")
    if words.json:
        print_json({"starts": [msgspec.to_builtins(row) for row in rows]})
    else:
        table = [[str(row.nodes), str(row.ranks), *phase_cells(row, earlier)] for row in rows]
        print_table("Starts: the rank in the middle … the slowest (usual)", ["nodes", "ranks", *PHASES], table)
    if words.html:
        Path(words.html).write_text(start_page(rows, earlier), encoding="utf-8")
    if not words.no_history:
        text = "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("ab") as stream:
                stream.write(text.encode())
                os.fsync(stream.fileno())
        except OSError as error:
            say(f"warning: the history {file} cannot be written: {error.strerror}")
    return 0
