"""Whether there is a Slurm here that takes jobs. Its silence is not an answer, but an error."""

from __future__ import annotations

from collections.abc import Mapping

from muster.errors import MachineLacks, SchedulerSilent
from muster.look.programs import on_path
from muster.older import StrEnum
from muster.runner import MUNGE_HINT, MUNGE_IS_DOWN, Runner, munge_is_down, run
from muster.slurm.cluster import CONTROLLER
from muster.slurm.silence import last_words
from muster.slurm.submit import is_without_cluster

_PATIENCE_S = 5.0
_CLIENTS = ("scontrol", "salloc", "sbatch", "srun")
_HINT = "try again in a minute: it may be busy or restarting"


class SlurmHere(StrEnum):
    """What is known for sure; the value is the sentence."""

    ANSWERS = "a Slurm controller answers here"
    NOT_SET_UP = "Slurm is installed here, but no cluster is set up"
    ABSENT = "there is no Slurm here"


def slurm_here(environment: Mapping[str, str], runner: Runner = run) -> SlurmHere:
    """Return whether a Slurm takes jobs here. One that is set up and does not say so in time is `SchedulerSilent`."""
    if all(on_path(program, environment) is None for program in _CLIENTS):
        return SlurmHere.ABSENT
    try:
        answer = runner(CONTROLLER.argv, timeout_s=_PATIENCE_S)
    except (MachineLacks, SchedulerSilent) as error:
        raise _silent(error.message) from None
    if not answer.ok and is_without_cluster(answer.stderr):
        return SlurmHere.NOT_SET_UP
    is_up = CONTROLLER.read(answer.stdout)
    if is_up:
        return SlurmHere.ANSWERS
    if is_up is None and answer.ok:
        raise _silent(f"what scontrol ping says cannot be read: {answer.stdout.strip()[:200]!r}")
    raise _silent(f"scontrol ping {last_words(answer.status, answer.stderr or answer.stdout)}")


def _silent(evidence: str) -> SchedulerSilent:
    """Return the error, with what was seen; where munge is down, that is why."""
    if munge_is_down():
        return SchedulerSilent(f"Slurm cannot be asked: {MUNGE_IS_DOWN}", hint=MUNGE_HINT)
    return SchedulerSilent(f"the Slurm controller does not answer: {evidence}", hint=_HINT)
