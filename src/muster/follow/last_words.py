"""What the rank that failed first wrote last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a page of help needs none of these
    from muster.follow.watch import JobOutput
    from muster.model.failure import Failure

_LINES = 15


def last_words(output: JobOutput | None, failure: Failure | None) -> list[str]:
    """Return the last lines of the rank that failed first; of everything where it is not known or said nothing."""
    from muster.follow.watch import last_lines

    if output is None:
        return []
    if failure is not None and failure.role and output.roles:
        output = output.of_role(failure.role)
    rank = failure.tasks[0] if failure is not None and failure.tasks else None
    lines = last_lines(output, rank=rank, count=_LINES)
    words = [line.text.decode(errors="replace").rstrip("\r") for line in lines]
    # The rank's shell under mpirun says this in the rank's name.
    return [line for line in words if not re.match(r"muster: rank \d+ (on \S+ )?ended with status ", line)]
