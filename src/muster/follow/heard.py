"""Who answered when Slurm was asked for jobs, and what follows of a job of which no word came."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.older import StrEnum

if TYPE_CHECKING:  # a page of help needs none of these
    from muster.slurm.states import Phase


class Accounting(StrEnum):
    """What came of asking accounting."""

    NOT_ASKED = "accounting was not asked"
    ANSWERED = "accounting does not have it"
    SILENT = "accounting does not answer"
    OFF = "this cluster keeps no accounts"
    NO_CLIENT = "accounting cannot be asked here: sacct is not on PATH"


class Heard(NamedTuple):
    """Who answered. It tells what follows where no job came: without any answer, nothing does."""

    silent: bool = True
    """The controller did not answer."""

    accounting: Accounting = Accounting.NOT_ASKED

    @property
    def is_final(self) -> bool:
        """Return whether to ask again would tell no more."""
        return not self.silent and self.accounting is not Accounting.SILENT

    @property
    def phase(self) -> Phase:
        """Return where a job is that had a number and did not come: the controller forgets none that lives."""
        from muster.slurm.states import Phase

        return Phase.UNKNOWN if self.silent else Phase.ENDED

    @property
    def sentence(self) -> str:
        """Return why nothing is known of a job that had a number."""
        if self.silent:
            return f"the Slurm controller does not answer, and {self.accounting.value}"
        if self.accounting in {Accounting.NOT_ASKED, Accounting.ANSWERED}:
            return "Slurm does not know it any more, and accounting does not have it"
        return f"Slurm does not know it any more, and {self.accounting.value}: how it ended is not known"
