"""What the rank that failed first wrote last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a page of help needs none of these
    from muster.follow.watch import JobOutput
    from muster.model.failure import Failure

LINES = 15
_OF_THE_END = re.compile(r"srun: |slurmstepd(-\S+)?: ")


def last_words(output: JobOutput | None, failure: Failure | None) -> list[str]:
    """Return the last lines of the rank that failed first; of everything where it is not known or said nothing."""
    from muster.follow.watch import last_lines
    from muster.model.failure import FailureKind

    if output is None:
        return []
    if failure is not None and failure.role and output.roles:
        output = output.of_role(failure.role)
    rank = failure.tasks[0] if failure is not None and failure.tasks else None
    is_late = failure is not None and failure.kind is FailureKind.LATE
    lines = last_lines(output, rank=rank, count=2 * LINES if is_late else LINES)
    words = [line.text.decode(errors="replace").rstrip("\r") for line in lines]
    if is_late:  # what tells that the role was ended then does not tell why
        words = [line for line in words if not _OF_THE_END.match(line)][-LINES:]
    # The rank's shell under mpirun says this in the rank's name.
    return [line for line in words if not re.match(r"muster: rank \d+ (on \S+ )?ended with status ", line)]
