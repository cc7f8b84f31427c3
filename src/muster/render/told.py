"""What every rank is told of its launch: Muster's own variables, by which it checks its start. Pure."""

from __future__ import annotations

from muster.launchers import launcher_named
from muster.launchers.base import python_of_ranks
from muster.model.plan import Plan
from muster.model.words import Fragment, Word
from muster.rank import contract
from muster.render.own_text import counts_ends


def told_to_tasks(plan: Plan) -> dict[str, Word]:
    """Return Muster's own variables, by which every rank checks its start."""
    meeting, shape = plan.rendezvous, plan.shape
    values: dict[str, Word] = {
        contract.JOB: Fragment('"$muster_job"'),
        contract.RUN_DIRECTORY: Fragment('"$muster_run_dir"'),
        contract.LAUNCHER: plan.launcher,
        contract.AGENTS: str(int(launcher_named(plan.launcher).leaves_daemons)),
        contract.EXPECTED_TASKS: Fragment("$((muster_nodes * muster_ntasks_per_node))"),
        contract.TASKS_PER_NODE: Fragment('"$muster_ntasks_per_node"'),
        contract.EXPECTED_GPUS: str(shape.gpus_per_node if plan.pack is None else plan.pack.shape.gpus_per_node),
        contract.EXPECTED_CPUS: Fragment('"$muster_cpus_per_task"') if shape.cpus_per_task else "0",
        contract.VISIBILITY: plan.visibility,
        contract.GRACE: str(plan.grace_s),
        contract.PORT_LOW: str(meeting.port_low),
        contract.PORT_COUNT: str(meeting.port_high - meeting.port_low + 1),
    }
    if plan.pack is not None:
        from muster.render.sweep import port_range_of_row

        values |= port_range_of_row(plan, plan.pack)
    if meeting.host_suffix:
        values[contract.HOST_SUFFIX] = meeting.host_suffix
    if meeting.address is not None:
        values[contract.ADDRESS] = meeting.address
    if meeting.port is not None:
        values[contract.PORT] = str(meeting.port)
    elif meeting.range_asked:
        values[contract.RANGE_ASKED] = "1"
    if plan.wireup is not None:
        values[contract.METHOD] = plan.wireup
    if (python := python_of_ranks(plan)) is not None:
        values[contract.PYTHON] = python
    if counts_ends(plan, launcher_named(plan.launcher)):
        values[contract.ENDS] = Fragment('"$(muster_ends)"')
    return values
