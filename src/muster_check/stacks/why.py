"""What a running job does now: it works, it waits for one rank, or it hangs, and where. Two looks at its ranks."""

from __future__ import annotations

import linecache
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from muster.cli.job_words import plain
from muster.errors import MusterError, SchedulerSilent, SiteError
from muster.follow.cases import JobCase
from muster.follow.heard import Accounting
from muster.follow.packs import directory_of_row

if TYPE_CHECKING:
    from muster_check.stacks.judge import Verdict

_GAP_S = 0.7
_LATE_S = 4.0
_LONGEST_LINE = 120


def explain_running(case: JobCase) -> Iterator[str]:
    """Yield what the ranks do, and what they wrote last."""
    reported = plain(case.reported_hang or "")
    yield from [f"  {reported}"] if reported else []
    try:
        verdict, words = look_at_ranks(case)
    except MusterError as error:
        yield f"  its ranks cannot be looked at: {error}"
        return
    if not reported.endswith(plain(verdict.sentence)):
        yield f"  {plain(verdict.sentence)}"
    if verdict.where is not None:
        text = linecache.getline(verdict.where.file, verdict.where.line).strip()
        yield f"    {plain(verdict.where.file)}:{verdict.where.line}" + (f" | {plain(text)}" if text else "")
    yield from (f"  {plain(text)}" for text in words)
    yield from (f"  {text}" for text in _last_output(case))
    if verdict.is_hang:
        yield f"  hint: {plain(verdict.remedy)}"
        yield f"  every rank: muster stacks {case.id_to_type}"


def look_at_ranks(case: JobCase) -> tuple[Verdict, tuple[str, ...]]:
    """Return what the ranks of a running job do, from two looks at all of them, and what torch and NCCL say."""
    from muster.rank.hostlist import expand
    from muster_check.stacks.ask import StackQuestion, ask_job, find_spy
    from muster_check.stacks.condition import JobCondition
    from muster_check.stacks.judge import judge_job
    from muster_check.stacks.own_words import own_words
    from muster_check.stacks.read import read_rounds

    job = case.job
    assert job is not None  # noqa: S101  # of a running job
    if case.heard.silent and case.heard.accounting is Accounting.ANSWERED:
        # Each srun would wait for the controller as long as the question before did: of an array, for each task.
        raise SchedulerSilent("the Slurm controller does not answer", hint="ask again later")
    if job.state.name == "SUSPENDED":
        raise SiteError("a suspended job starts no step", hint="scontrol resume JOB, by an operator")
    question = StackQuestion(
        find_spy(os.environ),
        rounds=3,
        gap_s=_GAP_S / 2,
        late_s=_LATE_S,
        records=True,
        directory=directory_of_row(case.run, job),
    )
    rounds = read_rounds(ask_job(job.id, job.nodes_of_parts, dict(os.environ), question))
    verdict = judge_job(rounds, expand(job.node_list or ""))
    verdict = (_gone(case) if verdict.kind is JobCondition.STARTS else None) or verdict
    return verdict, own_words(rounds[-1].stacks) if rounds and verdict.is_hang else ()


def _gone(case: JobCase) -> Verdict | None:
    """Return that ranks without a process had begun, by their own word; None: none of this attempt has."""
    from muster_check.stacks.condition import JobCondition
    from muster_check.stacks.judge import NO_RANK, Verdict

    silent, count = [], 0
    for host, file in case.files_of_ends():
        lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
        ended = sum(line.rpartition(" ")[2].isdigit() for line in lines)
        count += ended
        silent += [host] if lines and not ended else []
    if not count and not silent:
        return None
    places = ", ".join(silent[:4]) + (f" and {len(silent) - 4} more" if len(silent) > 4 else "")
    if not count:
        # A command may hide the variable: what has begun may run.
        return Verdict(JobCondition.STARTS, f"{NO_RANK}, though those on {places} have begun")
    sentence = f"{NO_RANK}: {count} rank{'s' * (count != 1)} said that they ended"
    if not silent:
        return Verdict(JobCondition.STARTS, sentence)
    sentence += f", and those on {places} began and said no more: the node was started again, a slurmstepd killed, "
    return Verdict(JobCondition.STARTS, f"{sentence}or their command hides the variable", (), silent[0])


def _last_output(case: JobCase) -> Iterator[str]:
    """Yield when the job wrote last, and its last line."""
    from muster.follow.find_output import find_output
    from muster.follow.watch import last_lines

    output = find_output(case.job, case.run, case.asked)
    files = [] if output is None else output.files()
    times = [file.path.stat().st_mtime for file in files if file.path.is_file() and file.path.stat().st_size]
    if not times:
        yield _of_no_output(case)
        return
    assert output is not None  # noqa: S101  # it has files
    age = max(time.time() - max(times), 0)
    lines = last_lines(output, rank=None, count=1)
    text = plain(lines[-1].merged().decode(errors="replace"))[:_LONGEST_LINE] if lines else ""
    yield f"last output {_age(age)} ago: {text}"


def _of_no_output(case: JobCase) -> str:
    """Return what it means that no line is there: only of a file that can be read it is known to be empty."""
    from muster.follow.find_output import closed_output, find_output, unkept_output

    unkept = unkept_output(case.job, case.run)
    closed = closed_output(case.job) if case.run is None else None
    if unkept is not None:
        return f"its output is not kept: it goes to {plain(str(unkept))}"
    if closed is not None:
        return f"what it wrote cannot be read by you: {plain(str(closed))}"
    output = find_output(case.job, case.run, case.asked)
    is_there = output is not None and any(file.path.is_file() for file in output.files())
    return "nothing was written yet" if is_there else "no file of its output is to be seen here"


def _age(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def as_json(case: JobCase) -> dict[str, Any] | None:
    """Return the verdict for --json; None where the ranks cannot be looked at."""
    try:
        verdict, words = look_at_ranks(case)
    except MusterError:
        return None
    place = verdict.where
    return {
        "kind": verdict.kind.name.lower(),
        "stands": verdict.is_hang,
        "sentence": verdict.sentence,
        "remedy": verdict.remedy if verdict.is_hang else None,
        "records": list(words),
        **({"role": verdict.role} if verdict.role else {}),
        "ranks": list(verdict.ranks),
        "host": verdict.host or None,
        "file": place.file if place else None,
        "line": place.line if place else None,
    }
