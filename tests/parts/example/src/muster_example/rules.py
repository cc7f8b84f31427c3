"""A rule for `muster lint`: the word `hurry` in a job's name."""

from __future__ import annotations

from collections.abc import Iterator

from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan


@rule(
    "no-hurry",
    Severity.STYLE,
    "a job in a hurry",
    why="Slurm does not read the name of a job.",
    instead="Give the job another name.",
    source="https://example.org/names",
    bad="#!/bin/bash\n#SBATCH --job-name=hurry\nsrun --kill-on-bad-exit=1 hostname\n",
    good="#!/bin/bash\n#SBATCH --job-name=calm\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_hurry(job: BatchScript) -> Iterator[Hit]:
    """Yield each line that names the job `hurry`."""
    for number, line in enumerate(job.lines, start=1):
        if line.endswith("=hurry"):
            yield Hit(TextSpan(number, 1, number, len(line) + 1), "the job is in a hurry")
