"""The runs that show what a rule says: the table `rules/runs.toml`, which answers for every rule."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from muster_lint.rule import rule_named
from muster_lint.values import Rule

_TABLE = Path(__file__).parent / "rules/runs.toml"


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a rule's two examples are run on a lab, and what has to be seen before and after; or why they are not run."""

    not_run: str = ""
    """Why a lab cannot show the fault."""

    before: str = ""
    """A pattern that the record of the bad example fits, and the record of the good one does not."""

    after: str = ""
    """A pattern that the record of the good example fits, and the record of the bad one does not."""

    says: str = ""
    """One sentence: what the run shows."""

    train: str = ""
    """The program `train.py` beside the script: a name in `programs`, or the text."""

    files: dict[str, str] = {}
    """Other files beside the script."""

    prepare: str = ""
    """Shell commands that make more files, before the job is submitted."""

    options: tuple[str, ...] = ()
    """More words for sbatch."""

    copies: int = 1
    """How many times the same script is submitted."""

    fields: tuple[str, ...] = ()
    """What else is recorded of the job: fields of `scontrol show job`."""

    lists_files: bool = False
    """Whether the files that the job made are recorded."""

    only: str = ""
    """A pattern of the lines that are recorded; without it all are."""

    hangs: bool = False
    """Whether the bad example goes on until somebody ends it."""

    long: bool = False
    """Whether the run is too slow for every change: torch is imported, or a time limit has to come."""


class ShownRuns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    slurm: str
    """The version that the records were made on; others word some messages otherwise."""

    python_job: str
    """The batch script that starts the examples of Python rules."""

    programs: dict[str, str]
    runs: dict[str, Shown]

    def rules(self) -> tuple[tuple[Rule, Shown], ...]:
        """Return the rules that have a run, each with it."""
        return tuple((rule_named(name), shown) for name, shown in self.runs.items() if not shown.not_run)

    def program(self, shown: Shown) -> str:
        """Return the text of the run's train.py."""
        return self.programs.get(shown.train, shown.train)


@cache
def runs_table() -> ShownRuns:
    """Return the table."""
    return msgspec.toml.decode(_TABLE.read_bytes(), type=ShownRuns)
