"""muster logs: a job's output, of all ranks or of one, as it stands or while it grows."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.cli.asked_jobs import answer_for, cases, cluster, ids_or_newest, only_case, scheduler, state, with_links
from muster.cli.command_line import CommandLine, Words
from muster.cli.job_words import row_line, words_of_waiting
from muster.cli.output import harmless, say
from muster.errors import RequestError, SiteError
from muster.follow.cases import JobCase
from muster.job.option import option, parse_count
from muster.slurm.states import Phase

if TYPE_CHECKING:
    from muster.act.record import Run
    from muster.follow.scheduler import Answer, Scheduler
    from muster.follow.watch import JobOutput, OutputLine

# Files are looked at this often, the controller ever more seldom (follow/scheduler.py).
_LOOK_S = 0.5
# While we follow, a controller that does not answer may not hold up the lines for longer.
_PATIENCE_S = 5.0


def main(words: Words) -> int:
    """Print a job's output."""
    ids = ids_or_newest(words)
    from muster.follow.watch import Follower

    rank, as_json = words.rank, words.json
    slurm = scheduler()
    try:
        case = _case(ids[0], slurm, follow=words.follow)
    except (RequestError, SiteError):
        output_file = _named_output(ids[0])
        if output_file is None:
            raise
        return _show_named(output_file, ids[0], words)
    for text in () if as_json else row_line(case):
        say(text)
    if words.follow:
        return _follow(case, slurm, words)
    output = _output(case, words)
    lines = _last(Follower(output).new_lines(final=True, rank=rank), rank, words.tail)
    if case.run is not None and "_" not in case.id_to_type and not as_json:
        lines = _with_headings(lines, case.run, rank)
    line_count = _show(lines, rank, as_json=as_json)
    if not line_count:
        _refuse_attempt(case, words.attempt)
        _refuse_closed(case)
        say(_of_no_line(case, output, rank))
    return 0


def _refuse_attempt(case: JobCase, attempt: int | None) -> None:
    """Refuse the number of a run that the job never had; the tasks of an array have runs of their own."""
    if case.run is None or attempt is None or attempt <= case.attempt or [*case.run.directory.glob("task-*")]:
        return
    hint = f"muster logs --attempt {case.attempt} {case.asked}"
    raise RequestError(f"job {case.asked} has no run {attempt}: its newest is number {case.attempt}", hint=hint)


def _named_output(asked_id: str) -> Path | None:
    """Return the file that a script of `muster plan` wrote to under a bare sbatch in this folder; None: there is none.

    The script names it in its run directory; Slurm has forgotten such a job, and Muster never had a record of it.
    """
    folder = Path("muster-runs", asked_id)
    try:
        named_file = Path((folder / "output").read_text(encoding="utf-8").strip()) if asked_id.isdigit() else None
    except (OSError, UnicodeDecodeError):
        return None
    return named_file if named_file is not None and named_file.is_file() else None


def _show_named(output_file: Path, asked_id: str, words: Words) -> int:
    from muster.follow.watch import Follower, output_of_files

    say(f"Slurm does not tell of job {asked_id}; muster-runs/{asked_id}/output names {output_file}", quiet=words.json)
    all_lines = Follower(output_of_files([output_file])).new_lines(final=True, rank=words.rank)
    _show(_last(all_lines, words.rank, words.tail), words.rank, as_json=words.json)
    return 0


def _of_no_line(case: JobCase, output: JobOutput, rank: int | None) -> str:
    """Return what it means that no line is there, as far as it is known."""
    subject = f"job {case.asked}" if rank is None else f"rank {rank} of job {case.asked}"
    if case.phase.is_over:
        files = [file.path for file in output.files()]
        places = ", ".join(dict.fromkeys(str(path if path in output.named else path.parent) for path in files))
        return f"{subject} wrote nothing to {places}" if places else f"no file of the output of {subject} is here"
    if case.phase is Phase.UNKNOWN:
        return f"no line of {subject} is there, and whether the job has begun is not known: muster status {case.asked}"
    return f"{subject} has written nothing yet that is to be seen here: muster status {case.asked}"


def _attempt(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text)):
        raise RequestError(f"{text!r} is not the number of a run", hint="they are numbered from 1: --attempt 1")
    return int(text)


def _rank(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise RequestError(f"{text!r} is not a rank", hint="ranks are numbered from 0: --rank 3")
    return int(text)


def _case(asked_id: str, slurm: Scheduler, *, follow: bool) -> JobCase:
    """Return the job: Slurm says whether it is the one of our record, which is read also while Slurm is silent."""
    from muster.act.record import find_run

    has_record = find_run(state(), asked_id.partition("_")[0], cluster()) is not None
    answer = answer_for(asked_id, replace(slurm, timeout_s=_PATIENCE_S) if has_record else slurm)
    found_cases = cases([asked_id], answer, records_do=True)
    if found_cases[0].run is not None and not follow and "_" not in asked_id:
        return JobCase(
            asked_id,
            found_cases[0].job if len(found_cases) == 1 and "_" not in found_cases[0].shown_id else None,
            found_cases[0].run,
            heard=answer.heard,
        )
    return only_case(asked_id, found_cases, "logs")


def _output(case: JobCase, words: Words) -> JobOutput:
    """Return the output that is meant: of one attempt, or of all where it is followed; of one role, or of all."""
    from muster.follow.find_output import find_output

    if case.run is not None and not case.run.directory.is_dir():
        raise RequestError(
            f"the run directory of job {case.asked} is gone: {case.run.directory}",
            hint="look for it under another name: it was moved or removed",
        )
    output = find_output(case.job, case.run, case.asked, None if words.follow else words.attempt)
    if output is None:
        raise RequestError(
            f"it is not known where the output of job {case.asked} lies",
            hint="Slurm tells it only of jobs that wait, run, or have just ended",
        )
    output = replace(output, every_attempt=words.follow)
    output = output if words.role is None else output.of_role(words.role)
    if words.rank is not None:
        output.check_rank(words.rank)
    return output


def _refuse_unreadable(case: JobCase) -> None:
    """Refuse where the output lies in a file or a folder that is closed to this user."""
    from muster.follow.find_output import closed_output

    closed = None if case.run is not None else closed_output(case.job)
    if closed is not None:
        raise RequestError(
            f"the output of job {case.asked} cannot be read by you: {closed}",
            hint="only the job's owner reads its output, unless they open it",
        )


def _refuse_closed(case: JobCase) -> None:
    """Refuse with a reason where the output may exist but cannot be read."""
    from muster.follow.find_output import unkept_output

    _refuse_unreadable(case)
    if case.run is None and case.job is not None and case.job.is_batch is False:
        raise RequestError(
            f"the output of job {case.asked} is not kept: no script of sbatch wrote it",
            hint="a command of salloc, srun or muster run writes where it was typed",
        )
    unkept = unkept_output(case.job, case.run)
    if unkept is not None:
        raise RequestError(
            f"the output of job {case.asked} is not kept: it goes to {unkept}",
            hint="-o FILE, when it is submitted again, names a file",
        )


def _follow(case: JobCase, slurm: Scheduler, asked: Words) -> int:
    """Print what is new until the job is over; then once more, as its last words may have come in between."""
    from muster.follow.scheduler import pauses
    from muster.follow.watch import Follower

    rank, tail, as_json = asked.rank, asked.tail, asked.json
    output = _output(case, asked)
    follower = Follower(output)
    slurm = replace(slurm, timeout_s=_PATIENCE_S)
    waits = pauses(first_s=2.0)
    ask_at = 0.0
    last_words = ""
    line_count = 0
    while True:
        now = time.monotonic()
        is_over = False
        if now >= ask_at:
            case, is_over = _look(case, slurm)
            ask_at = now + next(waits)
            words = "" if case.job is None else words_of_waiting(case.job)
            if words and words != last_words:
                say(words)
            last_words = words
            # Of a job that Slurm has forgotten meanwhile, the output lies where it did.
            is_known = case.job is not None or case.run is not None
            if is_known and (case.run is None or output.named):
                follower.output = _output(case, asked)
        line_count += _show(_last(follower.new_lines(final=is_over), rank, tail), rank, as_json=as_json)
        tail = None
        if not line_count and case.phase is Phase.RUNNING:
            _refuse_unreadable(case)
        if is_over:
            if not line_count:
                _refuse_closed(case)
            return _status_of(case)
        time.sleep(_LOOK_S)


def _status_of(case: JobCase) -> int:
    """Return the exit status of a job that is over; refused where nothing tells it."""
    if case.phase is Phase.ENDED_WELL:
        return 0
    if case.job is not None and case.phase is Phase.ENDED_BADLY:
        return case.job.status or 1  # of a job that its node took down Slurm may tell the status 0
    sentence = case.heard.sentence if case.job is None else case.job.state.sentence
    raise SiteError(f"the exit status of job {case.asked} is not known: {sentence}", hint=f"muster why {case.asked}")


def _look(case: JobCase, slurm: Scheduler) -> tuple[JobCase, bool]:
    """Return the job as it is now, and whether it is over. A silent controller is asked again later."""
    answer = slurm.jobs(with_links([case.asked]))
    is_chain = case.run is not None and case.run.links
    # Of the links accounting may know the first alone.
    if answer.silent and (is_chain or not answer.jobs):
        return case, False
    if is_chain:
        return _look_at_chain(case, answer)
    if case.run is not None and case.run.rows_per_job:
        row_case = cases([case.asked], answer, records_do=True)[0]
        return row_case, row_case.phase.is_over
    job = next(iter(answer.of(case.asked)), None)
    if job is not None and job.stdout is None and case.job is not None:  # accounting does not say it
        job = replace(job, stdout=case.job.stdout, is_batch=case.job.is_batch)
    newest_case = JobCase(case.asked, job, case.run, heard=answer.heard)
    return newest_case, newest_case.phase.is_over


def _look_at_chain(case: JobCase, answer: Answer) -> tuple[JobCase, bool]:
    """Return the link that stands for all of them; it is over when no link lives, and none is about to be queued.

    A job that has not begun has noted no link yet.
    """
    newest_case = next(iter(cases([case.asked], answer, records_do=True)), case)
    return newest_case, not newest_case.links if newest_case.link else newest_case.phase.is_over


def _last(lines: Iterable[OutputLine], rank: int | None, count: int | None) -> Iterable[OutputLine]:
    """Return the last lines of a rank, or of all; None: every line."""
    if count is None:
        return lines
    return deque((line for line in lines if rank is None or line.rank == rank), maxlen=count)


def _with_headings(lines: Iterable[OutputLine], run: Run, rank: int | None) -> Iterator[OutputLine]:
    """Yield the lines of all tasks of an array, and say before those of each whose they are."""
    from muster.follow.row import row_in_words, row_of_task

    last_task = None
    for line in lines:
        if line.task is not None and line.task != last_task and rank in {None, line.rank}:
            sys.stdout.buffer.flush()
            row = row_of_task(run, line.task)
            say(f"{run.job}_{line.task}{f' ({row_in_words(row)})' if row else ''}:")
            last_task = line.task
        yield line


def _show(lines: Iterable[OutputLine], rank: int | None, *, as_json: bool) -> int:
    """Print the lines of `rank`, or all; how many there were."""
    count = 0
    stdout, is_terminal = sys.stdout.buffer, sys.stdout.isatty()
    for line in lines:
        if rank is not None and line.rank != rank:
            continue
        count += 1
        if as_json:
            _print_json(line)
        else:
            text = line.text if rank is not None else line.merged()
            stdout.write((as_shown(text) if is_terminal else text) + b"\n")
    stdout.flush()
    return count


def as_shown(text: bytes) -> bytes:
    """Return a line of a rank as a terminal may have it."""
    return harmless(text.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _print_json(line: OutputLine) -> None:
    import json

    task = {} if line.task is None else {"task": line.task}
    role = {"role": line.role} if line.role else {}
    print(
        json.dumps({"rank": line.rank, **role, **task, "text": line.text.decode(errors="replace")}, ensure_ascii=False)
    )


COMMAND = CommandLine(
    name="logs",
    start=main,
    summary="""\
Print what the ranks of a job wrote, each line behind the number of its rank: "3: …". With --rank the lines are as the
rank wrote them. For a job of Muster's this works also while Slurm does not answer.""",
    options=(
        option("-f --follow", "follow the output until the job has ended, and exit with its status"),
        option("--attempt N", "show one run of a job that was requeued: 1, 2, … (default: the last)", _attempt),
        option("--rank R", "show only this rank", _rank),
        option("--role NAME", "show only this role, of a job with several programs"),
        option("--tail N", "show only the last N lines (default: all): --tail 20", parse_count(1, 1_000_000)),
        option("--json", 'print one JSON object per line: {"rank": R or null, "text": "…"}'),
    ),
    operands="[JOB]",
    most=1,
    hint="muster jobs lists yours",
)
