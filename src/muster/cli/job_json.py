"""A job as JSON: the same keys whatever is known of it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from muster.follow.cases import JobCase
from muster.slurm.states import Phase

# The keys of a job in every --json, in their order.
JSON_KEYS = (
    *("job", "shown_id", "name", "state", "phase", "reason", "exit_code", "signal", "user", "partition", "account"),
    *("qos", "nodes", "cpus", "node_list", "time_limit_s", "submitted", "started", "expected_start", "ended"),
    *("ours", "directory", "row"),
)


def as_json(case: JobCase) -> dict[str, Any]:
    """Return a job with stable keys; what is not known is null. Times are ISO 8601 in UTC."""
    job = case.job
    own_fields = {
        "ours": case.run is not None or bool(job and job.is_ours),
        "directory": None if case.run is None else str(case.run.directory),
        "row": case.row,
    }
    if job is None:
        name = case.run.name if case.run else None
        fields = {"job": case.asked, "name": name, "state": "UNKNOWN", "phase": case.phase.value}
        return {**dict.fromkeys(JSON_KEYS), **fields, **own_fields}
    return {
        "job": job.id,
        "shown_id": job.shown_id,
        "name": job.name,
        "state": job.state.name,
        "phase": job.state.phase.value,
        "reason": None if job.reason.code == "None" else job.reason.code,
        "exit_code": job.exit_code if job.state.phase.is_over else None,
        "signal": (job.signal or None) if job.state.phase.is_over else None,
        "user": job.user,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "nodes": job.nodes,
        "cpus": job.cpus,
        "node_list": job.node_list,
        "time_limit_s": job.time_limit_s,
        "submitted": _iso(job.submitted),
        # Slurm gives a job that was cancelled as it waited the time of its end here.
        "started": _iso(job.started) if job.node_list and job.state.phase is not Phase.WAITING else None,
        "expected_start": _iso(job.expected_start),
        "ended": _iso(job.ended) if job.state.phase.is_over else None,
        **own_fields,
    }


def _iso(seconds: int | None) -> str | None:
    return None if seconds is None else dt.datetime.fromtimestamp(seconds, tz=dt.timezone.utc).isoformat()
