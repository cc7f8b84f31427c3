"""Which link of a chain stands for all of them."""

from __future__ import annotations

import pytest

from muster.follow.links import ChainLink, current_of
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of

_CHAIN = tuple(ChainLink(number, str(number + 10)) for number in (1, 2, 3))


def _job(number: int, state: str, nodes: str | None) -> SlurmJob:
    job = str(number + 10)
    return SlurmJob(job, job, "train", state_of(state), reason_of("None"), node_list=nodes)


_ENDED, _RUNS, _WAITS = ("TIMEOUT", "n1"), ("RUNNING", "n1"), ("PENDING", None)
_WITHDRAWN = ("CANCELLED", None)


@pytest.mark.parametrize(
    ("states", "goes_on", "current"),
    [
        ((_RUNS, _WAITS, _WAITS), False, 1),
        ((_ENDED, _RUNS, _WAITS), True, 2),
        ((_ENDED, _WAITS, _WAITS), True, 2),
        ((_ENDED, _ENDED, _ENDED), True, 3),
        ((_ENDED, _ENDED, _WITHDRAWN), False, 2),
        ((_ENDED, _WITHDRAWN, _WITHDRAWN), True, 2),
        ((_WITHDRAWN, _WITHDRAWN), False, 2),
        ((), True, None),
    ],
)
def test_the_current_link_runs_or_waits_for_nodes_or_had_them_last_or_was_to_go_on(
    states: tuple[tuple[str, str | None], ...], goes_on: bool, current: int | None
) -> None:
    jobs = [_job(number, state, nodes) for number, (state, nodes) in enumerate(states, start=1)]
    # Slurm gives the jobs in an order of its own.
    found = current_of(_CHAIN, [*reversed(jobs), _job(9, "RUNNING", "n9")], goes_on=goes_on)

    assert (found[0] if found else None) == current
    assert found is None or found[1].id == str(found[0] + 10)


@pytest.mark.parametrize("shown", ["57_3", "57_[3]", "57_[3%1]"])
def test_a_task_of_an_array_is_known_while_it_waits(shown: str) -> None:
    job = SlurmJob("58", shown, "train", state_of("PENDING"), reason_of("None"))

    assert current_of([ChainLink(1, "57_3")], [job]) == (1, job)
    assert current_of([ChainLink(1, "57_4")], [job]) is None
