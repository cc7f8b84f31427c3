"""What a job's script starts beside its ranks: it waits for a long silence, and then looks at them.

    python -m muster.cli.silence PID JOB NODELIST RUN_DIRECTORY SECONDS [REASON]

PID is the script's. REASON is a file of a job whose ranks may start again: a hang is written there, and the status
is then 3. It is not a verb: only the script starts it. It stays as long as the job, so what looks at the ranks is
loaded when there is something to look at.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from muster_check.stacks.quiet import QuietWatch, Standstill

if TYPE_CHECKING:
    from muster_check.stacks.hung import Ranks

_HANGS = 3


def main(words: Sequence[str]) -> int:
    """Wait until the script has ended, or until its ranks hang and may start again."""
    pid, job, nodes, directory, silent_s, reason = (*words, "")[:6]

    def look(beside_output: bool, number: int, stood_s: int) -> Standstill | None:
        return ranks(beside_output).look(number, stood_s)

    @cache
    def ranks(beside_output: bool) -> Ranks:
        from muster.cli.output import say
        from muster.rank.hostlist import expand
        from muster_check.stacks.hung import Ranks, Watched

        watched = Watched(job, tuple(expand(nodes)), Path(directory), int(silent_s), say, beside_output)
        return Ranks(watched, os.environ)

    watch = QuietWatch(Path(directory), int(silent_s), look, time.monotonic, ends=bool(reason))
    while _runs(int(pid)):
        time.sleep(watch.pause_s)
        hang = watch.check()
        if hang and reason:
            Path(reason).write_text(f"{hang}\n", encoding="utf-8", errors="replace")
            return _HANGS
    return 0


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
