"""Programs that have a way of starting of their own: the words that start them as a role. Pure."""

from __future__ import annotations

from muster.job.request import Request


def apply_preset(role: Request) -> Request:
    """Return the request of a role with what its program needs."""
    return role
