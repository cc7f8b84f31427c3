"""`str(error)` of an error that leaves this interface has its hint below its sentence: here no verb prints it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muster.errors import MusterError


@contextmanager
def hints_shown() -> Iterator[None]:
    """Add the hint to the text of each error that leaves the block, once; `.message` stays the sentence alone."""
    try:
        yield
    except MusterError as error:
        if error.hint and error.args[:1] == (error.message,):
            error.args = (f"{error.message}\n\nhint: {error.hint}", *error.args[1:])
        raise
