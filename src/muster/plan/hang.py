"""When a job without a sign of life hangs: as asked, as the site says, or by the default. Pure."""

from __future__ import annotations

from muster.facts import Facts
from muster.job.request import Request
from muster.model.plan import Hang, Reason
from muster.plan.terms import Terms

_DEFAULT_S = 1800


def make_hang(request: Request, terms: Terms, facts: Facts, *, queued: bool) -> Hang | None:
    """Return how the job is watched; None: it is not. Unasked only a queued job is."""
    if facts.own_python is None:
        return None
    if request.hang is not None:
        seconds, reason = request.hang, Reason(request.set_by("hang"), request.origin("hang"))
    elif not queued:
        return None
    elif terms.hang_s is not None:
        seconds, reason = terms.hang_s, terms.hang_reason
    else:
        seconds, reason = _DEFAULT_S, Reason("nobody sits beside a queued job; --hang TIME, or --hang off")
    return Hang(seconds, facts.own_python, reason, ends=request.restart > 0) if seconds else None
