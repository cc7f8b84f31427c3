"""A job in words: its row and its runs, why it waits, how it ended, whose it is."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a page of help needs none of these
    from muster.follow.cases import JobCase
    from muster.slurm.jobs import SlurmJob

_SIGNALS_OF_SLURM = {53, 125}


def row_line(case: JobCase) -> list[str]:
    """Return the line that says which row of the sweep a task has, if there is one."""
    from muster.follow.row import row_in_words

    row = case.row
    return [] if row is None else [f"row {case.task}: {row_in_words(row)}"]


def words_of_waiting(job: SlurmJob) -> str:
    """Return why a job waits and when Slurm expects it to start; empty where it does not, or no reason is known."""
    from muster.slurm.states import Phase

    if job.state.phase is not Phase.WAITING or job.reason.code == "None":
        return ""
    expected = job.expected_start
    start = f"expected to start {when(expected)}" if expected else "Slurm has not yet estimated when it starts"
    return f"job {job.shown_id} waits for its nodes: {job.reason.code}: {job.reason.sentence}; {start}"


def ended_how(job: SlurmJob) -> str:
    """Return the exit status or signal of a job that is over, in words; empty where there is none to tell.

    No process gave that of a job without a node (signal 1 with BadConstraints), or Slurm's own: 125 (OUT_OF_MEMORY), 53
    (it could not start the script: no folder, no output file).
    """
    from muster.model.failure import exit_words

    is_of_slurm = job.signal in _SIGNALS_OF_SLURM or is_script_gone(job)
    has_ended = job.state.phase.is_over and job.node_list and not is_of_slurm
    return exit_words(job.status) if has_ended and job.status else ""


def is_script_gone(job: SlurmJob) -> bool:
    """Return whether Slurm found no script any more on the first node of a job: it says signal 1, which nobody sent."""
    return job.state.name == "NODE_FAIL" and job.signal == signal.SIGHUP


def other_owner(job: SlurmJob) -> str:
    """Return the owner of a job of somebody else; an empty text for a job of one's own."""
    import pwd

    try:
        own_name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user whom this machine does not list
        own_name = os.environ.get("USER", "")
    return "" if job.user in {None, "", own_name} else plain(str(job.user))


def when(seconds: int | None) -> str:
    """Return a time as the reader's clock shows it."""
    if seconds is None:
        return "unknown"
    import datetime as dt

    return dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def plain(text: str) -> str:
    """Return a name that somebody typed, harmless on a terminal: what is not printed stands escaped."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
