"""What a run directory holds before its job is queued: the plan, the script, the record, and a folder of each task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from muster.act.record import make_run_directory, record_of, write_whole
from muster.model.plan import SNAPSHOT_HERE, Output, Plan
from muster.plan.secret import hidden_values, without_values
from muster.render.document import plan_as_json
from muster.render.script import job_script
from muster.runner import Runner
from muster.slurm.submit import array_indices


def make_run_folder(plan: Plan, parent: Path, environment: Mapping[str, str], runner: Runner) -> Path:
    """Make the run directory of a job in `parent`, whole, and return it."""
    record, changes = record_of(plan.typed, environment, plan.working_directory, image=plan.image.image, runner=runner)
    files = {
        "plan.json": plan_as_json(plan),
        "job.sh": job_script(plan),
        "record.json": json.dumps(record, indent=2) + "\n",
        **({"changes.diff": without_values(changes, hidden_values(plan).values())} if changes else {}),
    }
    return make_run_directory(parent, plan.job_name, files, fill=partial(_fill, plan, runner))


def array_of(plan: Plan) -> str | None:
    """Return the numbers of the job's array, as they were typed; None: the job is not an array."""
    return next((directive.value for directive in plan.directives if directive.name == "array"), None)


def batch_log(plan: Plan, folder: Path) -> str | None:
    """Return the file for what the script itself says, in a folder of the job; None: the plan names another place."""
    return None if plan.output is Output.MOVED else str(folder / "logs" / "batch.log")


def hand_over(plan: Plan, directory: Path) -> None:
    """Write the plan's hidden values where its job will read them, for nobody else."""
    values = hidden_values(plan)
    if values:
        write_whole(directory / "passed", "".join(f"{name}={value}\0" for name, value in values.items()))


def _fill(plan: Plan, runner: Runner, directory: Path) -> None:
    if plan.snapshot:
        from muster.act.snapshot import copy_project

        copy_project(plan.working_directory, directory, runner=runner)
    if not _tasks(plan):
        hand_over(plan, directory)
    for role in plan.roles:
        folder = directory / "roles" / role.name
        (folder / "logs").mkdir(mode=0o700, parents=True)
        write_whole(folder / "plan.json", plan_as_json(role.plan))
        hand_over(role.plan, folder)
    for index in _tasks(plan):
        task = directory / f"task-{index}"
        (task / "logs").mkdir(mode=0o700, parents=True)
        if plan.sweep is not None:
            write_whole(task / "row.json", json.dumps(plan.sweep.row(index), ensure_ascii=False) + "\n")
        hand_over(plan, task)
        if plan.snapshot:
            (task / SNAPSHOT_HERE).symlink_to(f"../{SNAPSHOT_HERE}")


def _tasks(plan: Plan) -> Sequence[int]:
    """Return the numbers that have a folder of their own: the tasks of an array, or the rows of its table."""
    return array_indices(array_of(plan) or "") if plan.sweep is None else range(1, len(plan.sweep.rows) + 1)
