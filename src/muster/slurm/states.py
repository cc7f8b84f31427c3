"""Every state a Slurm job can be in, in words. A state that Slurm invents later is a value too, not an error."""

from __future__ import annotations

import msgspec

from muster.older import StrEnum


class Phase(StrEnum):
    """Where in its life a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED_WELL = "ended well"
    ENDED_BADLY = "ended badly"
    ENDED = "ended"
    """It is over, and nothing tells how it ended."""

    UNKNOWN = "unknown"

    @property
    def is_over(self) -> bool:
        return self in {Phase.ENDED_WELL, Phase.ENDED_BADLY, Phase.ENDED}


class State(msgspec.Struct, frozen=True):
    """One state: Slurm's name, the phase it belongs to, and a sentence about "the job"."""

    name: str
    phase: Phase
    sentence: str


_WAITING, _RUNNING, _WELL, _BADLY = Phase.WAITING, Phase.RUNNING, Phase.ENDED_WELL, Phase.ENDED_BADLY

# Names as squeue and sacct print them, 22.05 to 26.05.
_TABLE = (
    State("PENDING", _WAITING, "it waits in the queue"),
    State("RUNNING", _RUNNING, "it runs"),
    State(
        "SUSPENDED", _RUNNING, "it holds its nodes but was stopped for a while, by gang scheduling or by an operator"
    ),
    State("COMPLETED", _WELL, "it ended with status 0"),
    State("CANCELLED", _BADLY, "it was cancelled, by its user or by an operator"),
    State("FAILED", _BADLY, "it ended with a status other than 0"),
    State("TIMEOUT", _BADLY, "it was ended at its time limit"),
    State("NODE_FAIL", _BADLY, "one of its nodes failed"),
    State("PREEMPTED", _BADLY, "it was ended to make room for a job of higher rank"),
    State("BOOT_FAIL", _BADLY, "its nodes did not boot; the program never started"),
    State("DEADLINE", _BADLY, "it could not have ended before its --deadline any more"),
    State("OUT_OF_MEMORY", _BADLY, "a process used more memory than the job had, and was ended by the kernel"),
    State("COMPLETING", _RUNNING, "it has ended, and its nodes are being cleaned"),
    State("CONFIGURING", _RUNNING, "it has its nodes, which are booting or being prepared"),
    State("RESIZING", _RUNNING, "its number of nodes is being changed"),
    State("SIGNALING", _RUNNING, "a signal is on its way to it"),
    State("STAGE_OUT", _RUNNING, "it has ended, and its files are being copied out of the burst buffer"),
    State("STOPPED", _RUNNING, "its processes were stopped with a signal; it still holds its nodes"),
    State("EXPEDITING", _WAITING, "it was put back into the queue after a node failed, and goes before all others"),
    State("REQUEUED", _WAITING, "it was put back into the queue"),
    State("REQUEUE_HOLD", _WAITING, "it was put back into the queue and is held there"),
    State("REQUEUE_FED", _WAITING, "it was put back into the queue of the federation"),
    State("SPECIAL_EXIT", _WAITING, "it was put back into the queue and is held there, with a special exit status"),
    State("RESV_DEL_HOLD", _WAITING, "it is held: its reservation was deleted"),
    State("REVOKED", _BADLY, "another cluster of the federation started it; it will not run here"),
)

STATES = {state.name: state for state in _TABLE}


def state_of(text: str) -> State:
    """Return the state that squeue or sacct printed.

    "RUNNING", "CANCELLED by 1000", "CANCELLED+", or one we do not know.
    """
    name = text.split(maxsplit=1)[0].rstrip("+").upper() if text.strip() else ""
    state = STATES.get(name)
    return state or State(name or "UNKNOWN", Phase.UNKNOWN, "a state that Muster does not know")
