"""Muster from Python, for a notebook or a workflow tool: the same options, values and errors as the command line.

Needs Python 3.9, as the command line does; `muster.plan`, `muster.submit` and `muster.job` are these.
"""

from muster.api.events import Ended, Event, Pending, Running
from muster.api.job import Job
from muster.api.local import LocalJob
from muster.api.result import Result, TookTooLong
from muster.api.verbs import Plan, job, plan, submit

__all__ = [
    "Ended",
    "Event",
    "Job",
    "LocalJob",
    "Pending",
    "Plan",
    "Result",
    "Running",
    "TookTooLong",
    "job",
    "plan",
    "submit",
]
